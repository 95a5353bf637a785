//! Sets the clock and seeds the kernel's random number generator of a restored machine, before any command
//! runs.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_settime};

use super::{InitContext, InitResult};

pub(super) fn set_clock(since_1970: Duration) -> InitResult<()> {
    let time = TimeSpec::from_duration(since_1970);
    clock_settime(ClockId::CLOCK_REALTIME, time).at("set the clock")
}

mod random {
    //! `ioctl` requests of `/dev/random`, from the kernel's `random.h`.

    /// `struct rand_pool_info`: entropy in bits, number of bytes, the bytes.
    #[repr(C)]
    pub(super) struct Entropy {
        pub(super) bits: libc::c_int,
        pub(super) length: libc::c_int,
        pub(super) bytes: [u8; 32],
    }

    nix::ioctl_write_ptr!(add, b'R', 0x03, [libc::c_int; 2]);
    nix::ioctl_none!(reseed, b'R', 0x07);
}

/// Adds the seed to the entropy pool and reseeds the generator immediately.
pub(super) fn seed_randomness(seed: &[u8; 32]) -> InitResult<()> {
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

/// Moves the link to descriptor 0, where the guest expects it.
pub(super) fn move_to_stdin(link: OwnedFd) -> InitResult<OwnedFd> {
    // SAFETY: nothing owns descriptor 0 here; the link replaces it.
    if unsafe { libc::dup2(link.as_raw_fd(), 0) } < 0 {
        return Err(std::io::Error::last_os_error()).at("move the link to descriptor 0");
    }
    // SAFETY: just created; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(0) })
}
