//! A small assembler for system call filters.
//!
//! The kernel checks, translates and compiles every instruction of a filter at each start of a sandbox, so
//! the program is kept short. Neighbouring call numbers with the same rule become one segment, and a binary
//! search finds the segment of a call. Entry type: [`SeccompFilter`].

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

/// The number after `mseal`. From 424 on, new calls have the same number on every architecture.
const FIRST_UNKNOWN_CALL: u32 = 463;

// Offsets in `struct seccomp_data`, the input of a filter.
const NUMBER_OFFSET: u32 = 0;
const ARCHITECTURE_OFFSET: u32 = 4;
const ARGUMENTS_OFFSET: u32 = 16;

/// A condition on one argument. Conditions test its lower half, which is all that the kernel uses of an
/// `int`. [`ArgumentCondition::UpperHalfZero`] tests the upper half.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ArgumentCondition {
    /// The argument's bits under `mask` equal `value`.
    MaskedEqual {
        argument: u32,
        mask: u32,
        value: u32,
    },
    /// The argument differs from `value`.
    NotEqual { argument: u32, value: u32 },
    /// The argument is in one of these inclusive ranges.
    InRanges {
        argument: u32,
        ranges: &'static [(u32, u32)],
    },
    /// The upper half of the argument, which the other conditions ignore, is zero.
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

/// A call that is allowed if all conditions of at least one alternative hold.
#[derive(Debug)]
pub(crate) struct ConditionalCall {
    pub(crate) call: u32,
    pub(crate) alternatives: Vec<Vec<ArgumentCondition>>,
    /// The error that the call returns otherwise.
    errno: Errno,
}

/// The system calls that are allowed.
#[derive(Debug, Default)]
pub(crate) struct SeccompFilter {
    allowed: Vec<u32>,
    conditional: Vec<ConditionalCall>,
    /// Calls that are refused with a specific error.
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

    /// Like [`SeccompFilter::allow_if`], with an error other than `EPERM`.
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

    /// Assembles the filter program for the kernel. Calls without a rule are refused with `EPERM`. Calls
    /// newer than this filter are refused with `ENOSYS`, so that libraries fall back to older calls. Calls
    /// of another architecture kill the process. If a call is allowed and also has a specific rule, the
    /// specific rule applies.
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

    /// The first call number of each segment and the segment's code, in ascending order. The first segment
    /// begins at 0.
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

    /// Installs the filter for this thread and everything it starts.
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

/// The rule for one system call.
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

/// The compiled code ends in a verdict for all arguments.
fn compile_alternatives(alternatives: &[Vec<ArgumentCondition>], errno: Errno) -> Vec<sock_filter> {
    let mut body = Vec::new();
    for alternative in alternatives {
        // Built backwards, because each check must know the length of the code after it.
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
    /// The compiled code falls through if the condition holds, and skips the next `past` instructions if not.
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
                    // Skips the remaining checks and the final jump, which is taken if no range matches.
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

/// Converts a distance to the offset of a conditional jump.
fn jump_distance(distance: usize) -> u8 {
    u8::try_from(distance).expect("the code of one system call's rule fits a conditional jump")
}

/// Compiles a binary search for the segment of a call number.
fn compile_search(segments: &[(u32, Vec<sock_filter>)]) -> Vec<sock_filter> {
    match segments {
        [] => vec![return_errno(Errno::EPERM)],
        [(_, code)] => code.clone(),
        _ => {
            let (low, high) = segments.split_at(segments.len() / 2);
            let (low, first_high) = (compile_search(low), high[0].0);
            let mut code = match u8::try_from(low.len()) {
                Ok(distance) => vec![jump(BPF_JGE, first_high, distance, 0)],
                // An unconditional jump, because a conditional one reaches only 255 instructions.
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

    /// Interprets the subset of the kernel's BPF machine that the assembler uses.
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
