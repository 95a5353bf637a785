//! A small assembler for system call filters.
//!
//! The kernel checks, translates and compiles every instruction of a filter at each start of a
//! sandbox, so the program is kept short: neighbouring numbers with the same rule become one
//! segment, and the right segment is found by halving. Entry type: [`SeccompFilter`].

use std::io;

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JGT, BPF_JMP, BPF_K, BPF_LD, BPF_RET,
    BPF_W, SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, SECCOMP_RET_KILL_PROCESS, c_long, sock_filter,
    sock_fprog,
};
use nix::errno::Errno;

#[cfg(target_arch = "x86_64")]
const AUDIT_ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const AUDIT_ARCH: u32 = 0xc000_00b7;

/// After `mseal`. On every architecture new calls have the same numbers from 424 on.
const FIRST_UNKNOWN_CALL: u32 = 463;

// Places in the structure that the kernel shows to a filter.
const NUMBER_OFFSET: u32 = 0;
const ARCHITECTURE_OFFSET: u32 = 4;
const ARGUMENTS_OFFSET: u32 = 16;

/// What must hold of one argument. Its lower half is looked at, which is all that the kernel takes
/// of an `int`; [`ArgumentCondition::UpperHalfZero`] looks at the upper half.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ArgumentCondition {
    /// These bits of the argument have this value.
    MaskedEqual {
        argument: u32,
        mask: u32,
        value: u32,
    },
    /// The argument is anything but this.
    NotEqual { argument: u32, value: u32 },
    /// The argument is in one of these ranges, whose ends are included.
    InRanges {
        argument: u32,
        ranges: &'static [(u32, u32)],
    },
    /// The upper half of the argument, which the others do not look at, is empty.
    UpperHalfZero { argument: u32 },
}

impl ArgumentCondition {
    pub(crate) fn equals(argument: u32, value: u32) -> Self {
        Self::MaskedEqual {
            argument,
            mask: u32::MAX,
            value,
        }
    }
}

/// A call that is allowed if one of the alternatives holds in all its conditions.
#[derive(Debug)]
pub(crate) struct ConditionalCall {
    pub(crate) call: u32,
    pub(crate) alternatives: Vec<Vec<ArgumentCondition>>,
    /// What the call answers otherwise.
    errno: Errno,
}

/// Which system calls pass.
#[derive(Debug, Default)]
pub(crate) struct SeccompFilter {
    allowed: Vec<u32>,
    conditional: Vec<ConditionalCall>,
    /// Refused with an error of their own.
    refused: Vec<(u32, Errno)>,
}

impl SeccompFilter {
    pub(crate) fn allow(&mut self, calls: impl IntoIterator<Item = c_long>) {
        self.allowed
            .extend(calls.into_iter().map(|call| call as u32));
    }

    pub(crate) fn allow_if(&mut self, call: c_long, alternatives: Vec<Vec<ArgumentCondition>>) {
        self.allow_if_or(call, alternatives, Errno::EPERM);
    }

    /// The same with another error than `EPERM`.
    pub(crate) fn allow_if_or(
        &mut self,
        call: c_long,
        alternatives: Vec<Vec<ArgumentCondition>>,
        errno: Errno,
    ) {
        self.conditional.push(ConditionalCall {
            call: call as u32,
            alternatives,
            errno,
        });
    }

    pub(crate) fn refuse(&mut self, call: c_long, errno: Errno) {
        self.refused.push((call as u32, errno));
    }

    pub(crate) fn conditional(&self) -> &[ConditionalCall] {
        &self.conditional
    }

    pub(crate) fn refused(&self) -> &[(u32, Errno)] {
        &self.refused
    }

    /// Instructions for the kernel. Everything that was not named is refused with `EPERM`, calls
    /// that are newer than this filter with `ENOSYS`, so that libraries fall back to older
    /// ones; another architecture's calls end the process. A call that is both allowed and has a
    /// rule of its own follows the rule.
    pub(crate) fn assemble(&self) -> Vec<sock_filter> {
        let mut program = vec![
            load(ARCHITECTURE_OFFSET),
            jump(BPF_JEQ, AUDIT_ARCH, 1, 0),
            return_action(SECCOMP_RET_KILL_PROCESS),
            load(NUMBER_OFFSET),
        ];
        program.extend(compile_search(&self.segments()));
        program
    }

    /// What to do from each number on, in order; the first begins at 0.
    fn segments(&self) -> Vec<(u32, Vec<sock_filter>)> {
        let mut rules =
            [CallRule::Verdict(return_errno(Errno::EPERM)); FIRST_UNKNOWN_CALL as usize];
        for call in &self.allowed {
            rules[*call as usize] = CallRule::Verdict(return_action(SECCOMP_RET_ALLOW));
        }
        for one in &self.conditional {
            rules[one.call as usize] = CallRule::Conditional(one);
        }
        for (call, errno) in &self.refused {
            rules[*call as usize] = CallRule::Verdict(return_errno(*errno));
        }
        let mut segments = Vec::new();
        let mut last = None;
        for (call, rule) in (0..).zip(rules) {
            let verdict = match rule {
                CallRule::Verdict(verdict) => Some(verdict.k),
                CallRule::Conditional(_) => None,
            };
            if verdict.is_none() || verdict != last {
                segments.push((call, rule.compile()));
            }
            last = verdict;
        }
        segments.push((FIRST_UNKNOWN_CALL, vec![return_errno(Errno::ENOSYS)]));
        segments
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

/// What becomes of one system call.
#[derive(Clone, Copy)]
enum CallRule<'a> {
    Verdict(sock_filter),
    Conditional(&'a ConditionalCall),
}

impl CallRule<'_> {
    fn compile(&self) -> Vec<sock_filter> {
        match self {
            Self::Verdict(verdict) => vec![*verdict],
            Self::Conditional(one) => compile_alternatives(&one.alternatives, one.errno),
        }
    }
}

/// Ends in a verdict whatever the arguments are.
fn compile_alternatives(alternatives: &[Vec<ArgumentCondition>], errno: Errno) -> Vec<sock_filter> {
    let mut body = Vec::new();
    for alternative in alternatives {
        // From the end: each check must know how much follows it.
        let mut code = vec![return_action(SECCOMP_RET_ALLOW)];
        for check in alternative.iter().rev() {
            let mut checked = check.compile(code.len());
            checked.append(&mut code);
            code = checked;
        }
        body.extend(code);
    }
    body.push(return_errno(errno));
    body
}

impl ArgumentCondition {
    /// Goes on behind its end if it holds, and `past` instructions further if not.
    fn compile(&self, past: usize) -> Vec<sock_filter> {
        const UPPER_HALF_OFFSET: u32 = 4;
        let past = jump_distance(past);
        match *self {
            Self::MaskedEqual {
                argument,
                mask,
                value,
            } => {
                let mut code = vec![load(ARGUMENTS_OFFSET + argument * 8)];
                if mask != u32::MAX {
                    code.push(statement(BPF_ALU | BPF_AND | BPF_K, mask));
                }
                code.push(jump(BPF_JEQ, value, 0, past));
                code
            }
            Self::NotEqual { argument, value } => vec![
                load(ARGUMENTS_OFFSET + argument * 8),
                jump(BPF_JEQ, value, past, 0),
            ],
            Self::UpperHalfZero { argument } => vec![
                load(ARGUMENTS_OFFSET + argument * 8 + UPPER_HALF_OFFSET),
                jump(BPF_JEQ, 0, 0, past),
            ],
            Self::InRanges { argument, ranges } => {
                let mut code = vec![skip(u32::from(past))];
                for (first, last) in ranges.iter().rev() {
                    // Past what has been written and the instruction that ends the search.
                    let found = jump_distance(code.len());
                    if first == last {
                        code.insert(0, jump(BPF_JEQ, *first, found, 0));
                    } else {
                        code.insert(0, jump(BPF_JGT, *last, 0, found));
                        code.insert(0, jump(BPF_JGE, *first, 0, 1));
                    }
                }
                code.insert(0, load(ARGUMENTS_OFFSET + argument * 8));
                code
            }
        }
    }
}

/// A distance that a jump with a condition reaches.
fn jump_distance(distance: usize) -> u8 {
    u8::try_from(distance).expect("the rule of one system call is short")
}

/// Finds the segment of the number by halving.
fn compile_search(segments: &[(u32, Vec<sock_filter>)]) -> Vec<sock_filter> {
    match segments {
        [] => vec![return_errno(Errno::EPERM)],
        [(_, code)] => code.clone(),
        _ => {
            let (low, high) = segments.split_at(segments.len() / 2);
            let (low, first_high) = (compile_search(low), high[0].0);
            let mut code = match u8::try_from(low.len()) {
                Ok(distance) => vec![jump(BPF_JGE, first_high, distance, 0)],
                // A jump of any length: the one with a condition reaches only 255 instructions.
                Err(_) => vec![jump(BPF_JGE, first_high, 0, 1), skip(low.len() as u32)],
            };
            code.extend(low);
            code.extend(compile_search(high));
            code
        }
    }
}

fn return_errno(errno: Errno) -> sock_filter {
    return_action(SECCOMP_RET_ERRNO | errno as u32)
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

fn return_action(verdict: u32) -> sock_filter {
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
    fn run_program(
        program: &[sock_filter],
        architecture: u32,
        number: u32,
        arguments: [u64; 6],
    ) -> u32 {
        let mut accumulator = 0;
        let mut at = 0;
        loop {
            let step = program[at];
            at += 1;
            let code = u32::from(step.code);
            if code == BPF_LD | BPF_W | BPF_ABS {
                accumulator = match step.k {
                    NUMBER_OFFSET => number,
                    ARCHITECTURE_OFFSET => architecture,
                    offset => {
                        let argument = arguments[(offset - ARGUMENTS_OFFSET) as usize / 8];
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
                    _ if code == BPF_JMP | BPF_JGT | BPF_K => accumulator > step.k,
                    other => panic!("unknown instruction {other:#x}"),
                };
                at += usize::from(if holds { step.jt } else { step.jf });
            }
        }
    }

    #[test]
    fn every_number_gets_its_verdict() {
        let mut filter = SeccompFilter::default();
        let allowed = [0, 1, 2, 5, 7, 8, 100, 300, 301, 302, 450];
        filter.allow(allowed);
        filter.allow_if(
            41,
            vec![
                vec![
                    ArgumentCondition::equals(0, 1),
                    ArgumentCondition::MaskedEqual {
                        argument: 1,
                        mask: 0xf,
                        value: 2,
                    },
                ],
                vec![
                    ArgumentCondition::equals(0, 16),
                    ArgumentCondition::equals(2, 0),
                ],
            ],
        );
        filter.allow_if(
            16,
            vec![vec![
                ArgumentCondition::NotEqual {
                    argument: 1,
                    value: 0x5412,
                },
                ArgumentCondition::NotEqual {
                    argument: 1,
                    value: 9,
                },
            ]],
        );
        let small = ArgumentCondition::MaskedEqual {
            argument: 1,
            mask: !0xfff,
            value: 0,
        };
        filter.allow_if(
            29,
            vec![vec![
                small,
                ArgumentCondition::UpperHalfZero { argument: 1 },
            ]],
        );
        const NAMED: &[(u32, u32)] = &[(3, 3), (5, 7), (0x5401, 0x5401), (0xffff_ff00, u32::MAX)];
        let named = ArgumentCondition::InRanges {
            argument: 1,
            ranges: NAMED,
        };
        filter.allow_if_or(
            54,
            vec![
                vec![ArgumentCondition::equals(0, 1), named],
                vec![ArgumentCondition::equals(0, 2)],
            ],
            Errno::ENOPROTOOPT,
        );
        filter.refuse(435, Errno::ENOSYS);
        let program = filter.assemble();
        let check = |number: u32, arguments: [u64; 6], expect: u32| {
            assert_eq!(
                run_program(&program, AUDIT_ARCH, number, arguments),
                expect,
                "{number} {arguments:?}"
            );
        };
        let denied = SECCOMP_RET_ERRNO | Errno::EPERM as u32;
        for number in (0..600).chain([0x4000_0000, 0x4000_0001, u32::MAX]) {
            if [16, 29, 41, 54, 435].contains(&number) {
                continue;
            }
            let expect = match number {
                _ if allowed.contains(&i64::from(number)) => SECCOMP_RET_ALLOW,
                FIRST_UNKNOWN_CALL.. => SECCOMP_RET_ERRNO | Errno::ENOSYS as u32,
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
        let unknown = SECCOMP_RET_ERRNO | Errno::ENOPROTOOPT as u32;
        for value in [0, 2, 4, 8, 0x5400, 0x5402, 0xffff_feff] {
            check(54, [1, value, 0, 0, 0, 0], unknown);
            check(54, [2, value, 0, 0, 0, 0], SECCOMP_RET_ALLOW);
        }
        for value in [3, 5, 6, 7, 0x5401, 0xffff_ff00, 0xffff_ffff, 1 << 32 | 5] {
            check(54, [1, value, 0, 0, 0, 0], SECCOMP_RET_ALLOW);
            check(54, [3, value, 0, 0, 0, 0], unknown);
        }
        assert_eq!(
            run_program(&program, 0x4000_0003, 0, [0; 6]),
            SECCOMP_RET_KILL_PROCESS
        );
    }
}
