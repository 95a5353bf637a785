//! Measures the frequency of this processor's time stamp counter. An emulated machine sees the same
//! counter but has no reliable clock to measure it with: on a busy host its kernel gives up or gets
//! a wrong value, so the host passes it in.

use std::time::{Duration, Instant};

/// Long enough that the time for reading the clocks does not matter.
const MEASURE_INTERVAL: Duration = Duration::from_millis(100);

/// Ticks per millisecond; `None` if the processor has no such counter.
pub(super) fn tsc_khz() -> Option<u64> {
    let (first, began) = read()?;
    std::thread::sleep(MEASURE_INTERVAL);
    let (last, ended) = read()?;
    let microseconds = ended.duration_since(began).as_micros();
    let ticks = u128::from(last.wrapping_sub(first));
    u64::try_from(ticks * 1000 / microseconds.max(1)).ok()
}

/// Reads both clocks at nearly the same moment: of several tries, the one that took the least time.
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
        let found = tsc_khz().unwrap();
        assert!((500_000..10_000_000).contains(&found), "{found} kHz");
    }
}
