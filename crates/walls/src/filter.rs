//! A small assembler for system call filters.
//!
//! The kernel checks, translates and compiles every instruction of a filter at each start of a
//! sandbox, so the program is kept short: numbers that are allowed without conditions become
//! ranges, and the right range is found by halving. Entry type: [`Filter`].

use std::io;

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W,
    SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, SECCOMP_RET_KILL_PROCESS, c_long, sock_filter,
    sock_fprog,
};
use nix::errno::Errno;

#[cfg(target_arch = "x86_64")]
const AUDIT_ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const AUDIT_ARCH: u32 = 0xc000_00b7;

/// After `mseal`. On every architecture new calls have the same numbers from 424 on.
const FIRST_UNKNOWN: u32 = 463;

// Places in the structure that the kernel shows to a filter.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

/// What must hold of one argument, whose lower half is looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Condition {
    /// These bits of the argument have this value.
    Masked {
        argument: u32,
        mask: u32,
        value: u32,
    },
    /// The argument is anything but this.
    Not { argument: u32, value: u32 },
    /// The upper half of the argument, which the others do not look at, is empty.
    Short { argument: u32 },
}

impl Condition {
    pub(crate) fn equals(argument: u32, value: u32) -> Self {
        Self::Masked {
            argument,
            mask: u32::MAX,
            value,
        }
    }
}

/// Which system calls pass.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    allowed: Vec<u32>,
    /// Allowed if one of the alternatives holds in all its conditions.
    conditional: Vec<(u32, Vec<Vec<Condition>>)>,
    /// Refused with an error of their own.
    refused: Vec<(u32, Errno)>,
}

impl Filter {
    pub(crate) fn allow(&mut self, calls: impl IntoIterator<Item = c_long>) {
        self.allowed
            .extend(calls.into_iter().map(|call| call as u32));
    }

    pub(crate) fn allow_if(&mut self, call: c_long, alternatives: Vec<Vec<Condition>>) {
        self.conditional.push((call as u32, alternatives));
    }

    pub(crate) fn refuse(&mut self, call: c_long, errno: Errno) {
        self.refused.push((call as u32, errno));
    }

    pub(crate) fn conditional(&self) -> &[(u32, Vec<Vec<Condition>>)] {
        &self.conditional
    }

    pub(crate) fn refused(&self) -> &[(u32, Errno)] {
        &self.refused
    }

    /// Instructions for the kernel. Everything that was not named is refused with `EPERM`, calls
    /// that are newer than this filter with `ENOSYS`, so that libraries fall back to older
    /// ones; another architecture's calls end the process.
    pub(crate) fn assemble(&self) -> Vec<sock_filter> {
        let mut program = vec![
            load(ARCHITECTURE),
            jump(BPF_JEQ, AUDIT_ARCH, 1, 0),
            give(SECCOMP_RET_KILL_PROCESS),
            load(NUMBER),
        ];
        for (call, errno) in &self.refused {
            program.push(jump(BPF_JEQ, *call, 0, 1));
            program.push(give(SECCOMP_RET_ERRNO | *errno as u32));
        }
        for (call, alternatives) in &self.conditional {
            let body = conditions(alternatives);
            // A jump of any length: the one with a condition reaches only 255 instructions.
            program.push(jump(BPF_JEQ, *call, 1, 0));
            program.push(skip(body.len() as u32));
            program.extend(body);
        }
        program.push(jump(BPF_JGE, FIRST_UNKNOWN, 0, 1));
        program.push(give(SECCOMP_RET_ERRNO | Errno::ENOSYS as u32));
        program.extend(search(&ranges(&self.allowed)));
        program
    }

    /// Confines this thread and all that it starts.
    pub(crate) fn install(&self) -> io::Result<()> {
        let mut program = self.assemble();
        let program = sock_fprog {
            len: program.len() as u16,
            filter: program.as_mut_ptr(),
        };
        // SAFETY: the program lives across the call, and its length is the one passed.
        let result = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                0,
                &raw const program,
            )
        };
        match result {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Ends in a verdict whatever the arguments are.
fn conditions(alternatives: &[Vec<Condition>]) -> Vec<sock_filter> {
    let mut body = Vec::new();
    for alternative in alternatives {
        let checks: Vec<[sock_filter; 3]> = alternative.iter().map(|check| check.code()).collect();
        let count = checks.len();
        for (index, mut code) in checks.into_iter().enumerate() {
            // Failed: past the remaining checks of this alternative and its verdict.
            let past = ((count - index - 1) * 3 + 1) as u8;
            let last = &mut code[2];
            match alternative[index] {
                Condition::Masked { .. } | Condition::Short { .. } => last.jf = past,
                Condition::Not { .. } => last.jt = past,
            }
            body.extend(code);
        }
        body.push(give(SECCOMP_RET_ALLOW));
    }
    body.push(give(SECCOMP_RET_ERRNO | Errno::EPERM as u32));
    body
}

impl Condition {
    /// Load, mask, compare; the jumps are filled in by the caller.
    fn code(&self) -> [sock_filter; 3] {
        const UPPER: u32 = 4;
        let (place, mask, value) = match *self {
            Self::Masked {
                argument,
                mask,
                value,
            } => (argument * 8, mask, value),
            Self::Not { argument, value } => (argument * 8, u32::MAX, value),
            Self::Short { argument } => (argument * 8 + UPPER, u32::MAX, 0),
        };
        [
            load(ARGUMENTS + place),
            statement(BPF_ALU | BPF_AND | BPF_K, mask),
            jump(BPF_JEQ, value, 0, 0),
        ]
    }
}

/// Sorted, first and last of each run of neighbours.
fn ranges(calls: &[u32]) -> Vec<(u32, u32)> {
    let mut calls = calls.to_vec();
    calls.sort_unstable();
    calls.dedup();
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for call in calls {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == call => *last = call,
            _ => ranges.push((call, call)),
        }
    }
    ranges
}

/// Finds the number among the ranges by halving.
fn search(ranges: &[(u32, u32)]) -> Vec<sock_filter> {
    let refuse = give(SECCOMP_RET_ERRNO | Errno::EPERM as u32);
    match ranges {
        [] => vec![refuse],
        [(first, last)] => vec![
            jump(BPF_JGE, *first, 0, 1),
            jump(BPF_JGE, last + 1, 0, 1),
            refuse,
            give(SECCOMP_RET_ALLOW),
        ],
        _ => {
            let (low, high) = ranges.split_at(ranges.len() / 2);
            let (low, first_high) = (search(low), high[0].0);
            let mut code = vec![jump(BPF_JGE, first_high, 0, 1), skip(low.len() as u32)];
            code.extend(low);
            code.extend(search(high));
            code
        }
    }
}

fn statement(code: u32, value: u32) -> sock_filter {
    sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k: value,
    }
}

fn load(offset: u32) -> sock_filter {
    statement(BPF_LD | BPF_W | BPF_ABS, offset)
}

fn give(verdict: u32) -> sock_filter {
    statement(BPF_RET | BPF_K, verdict)
}

fn skip(count: u32) -> sock_filter {
    statement(BPF_JMP | BPF_JA, count)
}

fn jump(comparison: u32, value: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter {
        code: (BPF_JMP | comparison | BPF_K) as u16,
        jt,
        jf,
        k: value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's machine, as far as the assembler uses it.
    fn judge(program: &[sock_filter], architecture: u32, number: u32, arguments: [u64; 6]) -> u32 {
        let mut accumulator = 0;
        let mut at = 0;
        loop {
            let step = program[at];
            at += 1;
            let code = u32::from(step.code);
            if code == BPF_LD | BPF_W | BPF_ABS {
                accumulator = match step.k {
                    NUMBER => number,
                    ARCHITECTURE => architecture,
                    offset => {
                        let argument = arguments[(offset - ARGUMENTS) as usize / 8];
                        (argument >> (offset % 8 * 8)) as u32
                    }
                };
            } else if code == BPF_ALU | BPF_AND | BPF_K {
                accumulator &= step.k;
            } else if code == BPF_RET | BPF_K {
                return step.k;
            } else if code == BPF_JMP | BPF_JA {
                at += step.k as usize;
            } else {
                let holds = match code {
                    _ if code == BPF_JMP | BPF_JEQ | BPF_K => accumulator == step.k,
                    _ if code == BPF_JMP | BPF_JGE | BPF_K => accumulator >= step.k,
                    other => panic!("unknown instruction {other:#x}"),
                };
                at += usize::from(if holds { step.jt } else { step.jf });
            }
        }
    }

    #[test]
    fn every_number_gets_its_verdict() {
        let mut filter = Filter::default();
        let allowed = [0, 1, 2, 5, 7, 8, 100, 300, 301, 302, 450];
        filter.allow(allowed);
        filter.allow_if(
            41,
            vec![
                vec![
                    Condition::equals(0, 1),
                    Condition::Masked {
                        argument: 1,
                        mask: 0xf,
                        value: 2,
                    },
                ],
                vec![Condition::equals(0, 16), Condition::equals(2, 0)],
            ],
        );
        filter.allow_if(
            16,
            vec![vec![
                Condition::Not {
                    argument: 1,
                    value: 0x5412,
                },
                Condition::Not {
                    argument: 1,
                    value: 9,
                },
            ]],
        );
        let small = Condition::Masked {
            argument: 1,
            mask: !0xfff,
            value: 0,
        };
        filter.allow_if(29, vec![vec![small, Condition::Short { argument: 1 }]]);
        filter.refuse(435, Errno::ENOSYS);
        let program = filter.assemble();
        let check = |number: u32, arguments: [u64; 6], expect: u32| {
            assert_eq!(
                judge(&program, AUDIT_ARCH, number, arguments),
                expect,
                "{number} {arguments:?}"
            );
        };
        let denied = SECCOMP_RET_ERRNO | Errno::EPERM as u32;
        for number in (0..600).chain([0x4000_0000, 0x4000_0001, u32::MAX]) {
            if [16, 29, 41, 435].contains(&number) {
                continue;
            }
            let expect = match number {
                _ if allowed.contains(&i64::from(number)) => SECCOMP_RET_ALLOW,
                FIRST_UNKNOWN.. => SECCOMP_RET_ERRNO | Errno::ENOSYS as u32,
                _ => denied,
            };
            check(number, [0; 6], expect);
        }
        check(435, [0; 6], SECCOMP_RET_ERRNO | Errno::ENOSYS as u32);
        check(41, [1, 2, 99, 0, 0, 0], SECCOMP_RET_ALLOW);
        check(41, [1, 0x80002, 0, 0, 0, 0], SECCOMP_RET_ALLOW);
        check(41, [1, 3, 0, 0, 0, 0], denied);
        check(41, [16, 3, 0, 0, 0, 0], SECCOMP_RET_ALLOW);
        check(41, [16, 3, 15, 0, 0, 0], denied);
        check(41, [40, 2, 0, 0, 0, 0], denied);
        check(16, [0, 0x5413, 0, 0, 0, 0], SECCOMP_RET_ALLOW);
        check(16, [0, 0x5412, 0, 0, 0, 0], denied);
        check(16, [0, 0x1_0000_5412, 0, 0, 0, 0], denied);
        check(16, [0, 9, 0, 0, 0, 0], denied);
        check(29, [0, 4095, 0, 0, 0, 0], SECCOMP_RET_ALLOW);
        check(29, [0, 4096, 0, 0, 0, 0], denied);
        check(29, [0, 1 << 32, 0, 0, 0, 0], denied);
        assert_eq!(
            judge(&program, 0x4000_0003, 0, [0; 6]),
            SECCOMP_RET_KILL_PROCESS
        );
    }
}
