//! Reads what nearly every command needs, so that it is in memory when the snapshot is taken and no
//! restored machine has to fetch it again.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Programs and libraries, as an image of a common distribution has them; what is not there is
/// left out.
const USUAL: &[&str] = &[
    "bin/bash",
    "bin/sh",
    "bin/true",
    "bin/cat",
    "bin/ls",
    "bin/echo",
    "bin/mkdir",
    "bin/rm",
    "bin/uname",
    "usr/bin/env",
    "lib64/ld-linux-x86-64.so.2",
    "lib/x86_64-linux-gnu/libc.so.6",
    "lib/x86_64-linux-gnu/libtinfo.so.6",
    "lib/x86_64-linux-gnu/libselinux.so.1",
    "lib/x86_64-linux-gnu/libpcre2-8.so.0",
    "etc/ld.so.cache",
    "etc/passwd",
    "etc/group",
    "etc/nsswitch.conf",
];

/// Nothing of these is longer.
const LONGEST: u64 = 8 << 20;

pub(super) fn touch(image: &Path) {
    for name in USUAL {
        if let Ok(file) = File::open(image.join(name)) {
            let _ = io::copy(&mut file.take(LONGEST), &mut io::sink());
        }
    }
}
