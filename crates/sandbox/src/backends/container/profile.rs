//! The system call filter in the format of container engines: the same list as the guest's own
//! filter, which is installed later inside it. Entry point: [`json()`].

use serde_json::{Value, json};
use walls::seccomp::{ArgumentMask, profile};

/// The `unshare` flag for a user namespace.
const CLONE_NEWUSER: u32 = 0x1000_0000;

/// A profile for `--security-opt seccomp=…`. With `own_user`, the guest may create a user namespace
/// before its own filter forbids that too.
pub(crate) fn json(own_user: bool) -> String {
    const ALLOW: &str = "SCMP_ACT_ALLOW";
    const REFUSE: &str = "SCMP_ACT_ERRNO";
    let list = profile();
    let mut rules = vec![json!({ "names": list.allowed, "action": ALLOW })];
    let mut conditional = list.conditional;
    if own_user {
        let only = ArgumentMask {
            argument: 0,
            mask: u32::MAX,
            value: CLONE_NEWUSER,
        };
        conditional.push(("unshare", vec![vec![only]]));
    }
    for (name, alternatives) in conditional {
        for all in alternatives {
            let arguments: Vec<Value> = all.into_iter().map(argument).collect();
            rules.push(json!({ "names": [name], "action": ALLOW, "args": arguments }));
        }
    }
    for (name, errno) in list.refused {
        rules.push(json!({ "names": [name], "action": REFUSE, "errnoRet": errno }));
    }
    json!({
        "defaultAction": REFUSE,
        "defaultErrnoRet": 1,
        "architectures": [ARCHITECTURE],
        "syscalls": rules,
    })
    .to_string()
}

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: &str = "SCMP_ARCH_X86_64";
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: &str = "SCMP_ARCH_AARCH64";

fn argument(bits: ArgumentMask) -> Value {
    json!({
        "index": bits.argument,
        "value": bits.mask,
        "valueTwo": bits.value,
        "op": "SCMP_CMP_MASKED_EQ",
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_profile_allows_by_name_and_refuses_the_rest() {
        let check = |own_user, expect: bool| {
            let profile: Value = serde_json::from_str(&json(own_user)).unwrap();
            assert_eq!(profile["defaultAction"], "SCMP_ACT_ERRNO");
            let rules = profile["syscalls"].as_array().unwrap();
            let named = |name: &str| -> Vec<&Value> {
                let has = |rule: &&Value| rule["names"].as_array().unwrap().contains(&name.into());
                rules.iter().filter(has).collect()
            };
            assert_eq!(named("execve").len(), 1);
            for name in ["mount", "ptrace", "setns", "bpf", "io_uring_setup"] {
                assert!(named(name).is_empty(), "{name}");
            }
            assert_eq!(named("clone")[0]["args"][0]["op"], "SCMP_CMP_MASKED_EQ");
            assert_eq!(named("clone3")[0]["errnoRet"], 38);
            let unshare = named("unshare");
            assert_eq!(unshare.len(), usize::from(expect));
            assert!(
                unshare
                    .iter()
                    .all(|rule| rule["args"][0]["valueTwo"] == CLONE_NEWUSER)
            );
        };
        check(false, false);
        check(true, true);
    }
}
