//! The size of a machine for the limits of a sandbox, in a few steps: a snapshot fits only one
//! size. The exact limits are enforced inside.

use crate::limits::SandboxLimits;

const MIB: u64 = 1 << 20;

/// Memory for the sandbox in the smallest machine.
const MIN_SHARE_BYTES: u64 = 256 * MIB;

/// Memory for the machine's kernel and the guest.
const KERNEL_OVERHEAD_BYTES: u64 = 192 * MIB;

/// Memory and processors of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct MachineSize {
    /// Bytes.
    pub(crate) memory: u64,
    pub(crate) processors: usize,
}

impl MachineSize {
    /// `available` is the number of processors of the host.
    pub(crate) fn for_limits(limits: &SandboxLimits, available: usize) -> Self {
        let share = limits.memory.max(MIN_SHARE_BYTES).next_power_of_two();
        // The kernel needs metadata for every page.
        let memory = (share + share / 32 + KERNEL_OVERHEAD_BYTES).next_multiple_of(64 * MIB);
        let most = available.max(1);
        Self {
            memory,
            processors: (limits.cpus.ceil() as usize).clamp(1, most),
        }
    }

    /// The size of an emulated machine: QEMU itself and the file server need processors too, and
    /// emulated processors that wait for each other are slow.
    pub(crate) fn emulated(self, available: usize) -> Self {
        Self {
            processors: self.processors.min((available / 2).max(1)),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_few_and_hold_their_limits() {
        let check = |memory_mib: u64, cpus: f64, expect_mib: u64, processors: usize| {
            let limits = SandboxLimits {
                memory: memory_mib * MIB,
                cpus,
                ..SandboxLimits::default()
            };
            let size = MachineSize::for_limits(&limits, 4);
            assert_eq!(
                (size.memory / MIB, size.processors),
                (expect_mib, processors)
            );
            assert!(size.memory > limits.memory + 128 * MIB);
        };
        check(1, 0.5, 512, 1);
        check(256, 1.0, 512, 1);
        check(257, 1.5, 768, 2);
        check(512, 2.0, 768, 2);
        check(2048, 8.0, 2304, 4);
        check(2049, 4.0, 4416, 4);
    }

    #[test]
    fn an_emulated_machine_leaves_processors_to_what_serves_it() {
        let check = |processors, available, expect| {
            let size = MachineSize {
                memory: 512 * MIB,
                processors,
            };
            assert_eq!(size.emulated(available).processors, expect);
        };
        check(2, 1, 1);
        check(2, 2, 1);
        check(1, 8, 1);
        check(8, 8, 4);
    }
}
