//! A library that is preloaded into every program inside gVisor. Older versions of its kernel
//! reject a flag that `ls` and others pass (`AT_NO_AUTOMOUNT`). gVisor has no automounts, so the
//! flag can be dropped. Does nothing else.
//!
//! Built on its own, without the standard library: see `build.rs`.

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
    /// From the C library; sets `errno`.
    fn syscall(number: c_long, ...) -> c_long;
}

/// Replaces the function of the C library.
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
    // SAFETY: the caller's arguments are passed to the same system call.
    unsafe { syscall(number::STATX, folder, path, flags, mask, answer) as c_int }
}

/// Replaces the function of the C library.
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
    // SAFETY: the caller's arguments are passed to the same system call.
    unsafe { syscall(number::NEWFSTATAT, folder, path, answer, flags) as c_int }
}

/// The same function under its other name.
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

/// Required; nothing here panics.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
