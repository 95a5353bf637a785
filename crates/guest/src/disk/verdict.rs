//! Decides from one scan whether the disk limit is exceeded. Pure. Entry point: [`decide`].

use link::request::DiskGrowthLimit;

use super::usage::DiskUsage;

/// How much of the sandbox's usage a scan can have missed. The worst value of all its parts counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ScanCompleteness {
    /// Nothing: all processes were stopped, and all processes and folders were readable.
    Complete,
    /// Processes were running: a file can have moved from an unscanned folder to a scanned one.
    Moving,
    /// Out of memory, a process did not stop in time, or a descriptor was in flight. The next scan may
    /// succeed.
    Interrupted,
    /// A folder or a process is not readable.
    Opaque,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct DiskObservation {
    /// Growth of the file system, by any process.
    pub(super) growth: DiskUsage,
    /// Growth of what the scan found to be the sandbox's own.
    pub(super) own: DiskUsage,
    pub(super) completeness: ScanCompleteness,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DiskVerdict {
    Within,
    /// The file system has grown by more than the limit, and a complete scan shows that the sandbox has not.
    GrownByOthers,
    /// The file system has grown by more than the limit, but the scan did not stop the processes. Scan again
    /// with stopped processes.
    Unexplained,
    /// As `Unexplained`, although the processes were stopped. Scan again later.
    Inconclusive,
    Exceeded,
}

pub(super) fn decide(seen: &DiskObservation, limit: DiskGrowthLimit) -> DiskVerdict {
    if seen.own.exceeds(limit) {
        return DiskVerdict::Exceeded;
    }
    if !seen.growth.exceeds(limit) {
        return DiskVerdict::Within;
    }
    match seen.completeness {
        ScanCompleteness::Complete => DiskVerdict::GrownByOthers,
        ScanCompleteness::Moving => DiskVerdict::Unexplained,
        ScanCompleteness::Interrupted => DiskVerdict::Inconclusive,
        ScanCompleteness::Opaque => DiskVerdict::Exceeded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_counts_unless_a_complete_scan_says_that_it_is_of_others() {
        let limit = DiskGrowthLimit {
            bytes: 100,
            inodes: 10,
            has_other_places: false,
        };
        let usage = |(bytes, inodes)| DiskUsage { bytes, inodes };
        let check = |growth, own, completeness, expect| {
            let seen = DiskObservation {
                growth: usage(growth),
                own: usage(own),
                completeness,
            };
            assert_eq!(decide(&seen, limit), expect, "{seen:?}");
        };
        use ScanCompleteness::{Complete, Interrupted, Moving, Opaque};
        for any in [Complete, Moving, Interrupted, Opaque] {
            check((100, 10), (100, 10), any, DiskVerdict::Within);
            check((0, 0), (101, 0), any, DiskVerdict::Exceeded);
            check((0, 0), (0, 11), any, DiskVerdict::Exceeded);
        }
        for growth in [(101, 0), (0, 11)] {
            check(growth, (50, 5), Complete, DiskVerdict::GrownByOthers);
            check(growth, (50, 5), Moving, DiskVerdict::Unexplained);
            check(growth, (50, 5), Interrupted, DiskVerdict::Inconclusive);
            check(growth, (50, 5), Opaque, DiskVerdict::Exceeded);
        }
    }
}
