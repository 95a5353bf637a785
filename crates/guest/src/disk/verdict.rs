//! Decides from one scan whether the disk limit is exceeded. Pure. Entry point: [`judge`].

use link::request::DiskLimit;

use super::usage::Usage;

/// How much of what the sandbox occupies a scan can have missed; the worst of all its parts counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Completeness {
    /// Nothing: every process stood still and could be looked into, as could every folder.
    Complete,
    /// Processes ran meanwhile: files can have moved from where it had yet to look to where it had
    /// looked.
    Moving,
    /// There was no memory to look, a process did not stop in time, or a descriptor was in flight: the
    /// next scan may show more.
    Interrupted,
    /// Something cannot be looked into: a locked folder, a process that refuses.
    Opaque,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Observation {
    /// Of the file system, by whomever.
    pub(super) growth: Usage,
    /// Of what was seen to be the sandbox's own.
    pub(super) own: Usage,
    pub(super) completeness: Completeness,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Within,
    /// The file system has grown by more than the limit, and the sandbox has been proved not to have.
    GrownByOthers,
    /// The file system has grown by more than the limit while processes ran: the next poll sees that too,
    /// and has them stopped.
    Unexplained,
    /// As `Unexplained`, but the processes were stopped: scan again later.
    Inconclusive,
    Exceeded,
}

pub(super) fn judge(seen: &Observation, limit: DiskLimit) -> Verdict {
    if seen.own.exceeds(limit) {
        return Verdict::Exceeded;
    }
    if !seen.growth.exceeds(limit) {
        return Verdict::Within;
    }
    match seen.completeness {
        Completeness::Complete => Verdict::GrownByOthers,
        Completeness::Moving => Verdict::Unexplained,
        Completeness::Interrupted => Verdict::Inconclusive,
        Completeness::Opaque => Verdict::Exceeded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_counts_unless_a_complete_scan_says_that_it_is_of_others() {
        let limit = DiskLimit {
            bytes: 100,
            inodes: 10,
            has_other_places: false,
        };
        let usage = |(bytes, inodes)| Usage { bytes, inodes };
        let check = |growth, own, completeness, expect| {
            let seen = Observation {
                growth: usage(growth),
                own: usage(own),
                completeness,
            };
            assert_eq!(judge(&seen, limit), expect, "{seen:?}");
        };
        use Completeness::{Complete, Interrupted, Moving, Opaque};
        for any in [Complete, Moving, Interrupted, Opaque] {
            check((100, 10), (100, 10), any, Verdict::Within);
            check((0, 0), (101, 0), any, Verdict::Exceeded);
            check((0, 0), (0, 11), any, Verdict::Exceeded);
        }
        for growth in [(101, 0), (0, 11)] {
            check(growth, (50, 5), Complete, Verdict::GrownByOthers);
            check(growth, (50, 5), Moving, Verdict::Unexplained);
            check(growth, (50, 5), Interrupted, Verdict::Inconclusive);
            check(growth, (50, 5), Opaque, Verdict::Exceeded);
        }
    }
}
