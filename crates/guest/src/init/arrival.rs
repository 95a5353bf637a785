//! What a restored machine has to make its own before anything runs: the time and the kernel's
//! randomness.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_settime};

use super::{At, Step};

pub(super) fn set_clock(since_1970: Duration) -> Step<()> {
    let time = TimeSpec::from_duration(since_1970);
    clock_settime(ClockId::CLOCK_REALTIME, time).at("set the clock")
}

mod random {
    //! Requests of `/dev/random`, from the kernel's `random.h`.

    /// As the kernel takes it: how many bits the bytes are worth, how many bytes, the bytes.
    #[repr(C)]
    pub(super) struct Entropy {
        pub(super) bits: libc::c_int,
        pub(super) length: libc::c_int,
        pub(super) bytes: [u8; 32],
    }

    nix::ioctl_write_ptr!(add, b'R', 0x03, [libc::c_int; 2]);
    nix::ioctl_none!(reseed, b'R', 0x07);
}

/// Adds the seed to the pool and has the generator begin anew with it, at once.
pub(super) fn seed_randomness(seed: &[u8; 32]) -> Step<()> {
    const STEP: &str = "seed the kernel's randomness";
    let device = File::options()
        .read(true)
        .write(true)
        .open("/dev/random")
        .at(STEP)?;
    let entropy = random::Entropy {
        bits: 256,
        length: 32,
        bytes: *seed,
    };
    // SAFETY: the kernel reads the two numbers and then as many bytes as the second says, all
    // within the structure, which outlives the call.
    unsafe {
        random::add(device.as_raw_fd(), (&raw const entropy).cast()).at(STEP)?;
        // SAFETY: takes no argument.
        random::reseed(device.as_raw_fd()).at(STEP)?;
    }
    Ok(())
}

/// Where the guest expects its link.
pub(super) fn as_standard_input(link: OwnedFd) -> Step<OwnedFd> {
    // SAFETY: descriptor 0 is nobody's here; the link takes its place.
    if unsafe { libc::dup2(link.as_raw_fd(), 0) } < 0 {
        return Err(std::io::Error::last_os_error()).at("place the link");
    }
    // SAFETY: just made, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(0) })
}
