//! How fast this processor's time stamp counter runs. An emulated machine sees the same counter, and
//! has nothing dependable to measure it by: on a busy host its kernel gives up or takes for granted
//! what is wrong, so it is told.

use std::time::{Duration, Instant};

/// Long enough that the reading of the clocks does not count.
const INTERVAL: Duration = Duration::from_millis(100);

/// Ticks each millisecond; none where the processor has no such counter.
pub(super) fn kilohertz() -> Option<u64> {
    let (first, began) = read()?;
    std::thread::sleep(INTERVAL);
    let (last, ended) = read()?;
    let microseconds = ended.duration_since(began).as_micros();
    let ticks = u128::from(last.wrapping_sub(first));
    u64::try_from(ticks * 1000 / microseconds.max(1)).ok()
}

/// Both clocks at the same moment: of some tries, the one between whose readings least time passed.
#[cfg(target_arch = "x86_64")]
fn read() -> Option<(u64, Instant)> {
    let tries = (0..8).map(|_| {
        let before = Instant::now();
        // SAFETY: every processor of this architecture has the counter, and reading it changes
        // nothing.
        let ticks = unsafe { std::arch::x86_64::_rdtsc() };
        (before.elapsed(), ticks, before)
    });
    let best = tries.min_by_key(|(took, ..)| *took)?;
    Some((best.1, best.2))
}

#[cfg(not(target_arch = "x86_64"))]
fn read() -> Option<(u64, Instant)> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_counter_is_as_fast_as_processors_are() {
        let found = kilohertz().unwrap();
        assert!((500_000..10_000_000).contains(&found), "{found} kHz");
    }
}
