//! A library that every program inside gVisor gets loaded first. Older versions of its kernel
//! refuse a flag with which `ls` and others ask for files (`AT_NO_AUTOMOUNT`), and nothing is ever
//! mounted by looking at it there, so the flag is left out. Does nothing else.
//!
//! Built by itself, without the standard library: see `build.rs`.

#![no_std]

use core::ffi::{c_char, c_int, c_long, c_uint, c_void};

#[cfg(target_arch = "x86_64")]
mod number {
    pub(crate) const STATX: core::ffi::c_long = 332;
    pub(crate) const NEWFSTATAT: core::ffi::c_long = 262;
}

#[cfg(target_arch = "aarch64")]
mod number {
    pub(crate) const STATX: core::ffi::c_long = 291;
    pub(crate) const NEWFSTATAT: core::ffi::c_long = 79;
}

const AT_NO_AUTOMOUNT: c_int = 0x800;

unsafe extern "C" {
    /// The C library's own, which sets its error.
    fn syscall(number: c_long, ...) -> c_long;
}

/// As the C library's.
///
/// # Safety
/// The kernel checks both pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn statx(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    answer: *mut c_void,
) -> c_int {
    let flags = flags & !AT_NO_AUTOMOUNT;
    // SAFETY: the arguments are the caller's, for the same call.
    unsafe { syscall(number::STATX, folder, path, flags, mask, answer) as c_int }
}

/// As the C library's.
///
/// # Safety
/// The kernel checks both pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fstatat(
    folder: c_int,
    path: *const c_char,
    answer: *mut c_void,
    flags: c_int,
) -> c_int {
    let flags = flags & !AT_NO_AUTOMOUNT;
    // SAFETY: the arguments are the caller's, for the same call.
    unsafe { syscall(number::NEWFSTATAT, folder, path, answer, flags) as c_int }
}

/// The same under its other name.
///
/// # Safety
/// The kernel checks both pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fstatat64(
    folder: c_int,
    path: *const c_char,
    answer: *mut c_void,
    flags: c_int,
) -> c_int {
    // SAFETY: the same call.
    unsafe { fstatat(folder, path, answer, flags) }
}

/// Nothing here panics.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
