//! Decides which hosts are allowed, denied or need approval, from rules of all three kinds. Pure.
//!
//! The most specific rule wins: an exact host before subdomains, a longer name before a shorter one, a
//! rule with a port before one without. Among equally specific rules, a user's answer wins over
//! standing rules and a later answer over an earlier one. Among standing rules the strictest wins:
//! deny, then ask, then allow. Entry type: [`EgressPolicy`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::address::{self, AddressClass};
use crate::host::{ConnectTarget, Host};
use crate::rules::{AllowList, EgressRule};

/// What a rule does with the hosts it matches, from the mildest to the strictest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EgressAction {
    Allow,
    Ask,
    Deny,
}

/// Rules of all kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressPolicy {
    entries: Vec<PolicyEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct PolicyEntry {
    rule: EgressRule,
    stance: EgressAction,
    /// Position among the answers, from 1; 0 for a standing rule.
    answer: usize,
}

impl From<AllowList> for EgressPolicy {
    fn from(allow: AllowList) -> EgressPolicy {
        let mut policy = EgressPolicy::default();
        for rule in allow.rules() {
            policy.add(rule.clone(), EgressAction::Allow);
        }
        policy
    }
}

impl EgressPolicy {
    /// Adds a standing rule.
    pub fn add(&mut self, rule: EgressRule, stance: EgressAction) {
        self.entries.push(PolicyEntry {
            rule,
            stance,
            answer: 0,
        });
    }

    /// Adds all rules of another policy as standing rules.
    pub fn extend(&mut self, other: &EgressPolicy) {
        for entry in &other.entries {
            self.add(entry.rule.clone(), entry.stance);
        }
    }

    /// Adds an answer of a user, which wins over existing rules for the same hosts.
    pub fn answer(&mut self, rule: EgressRule, stance: EgressAction) {
        let latest = self.entries.iter().map(|entry| entry.answer).max();
        // An older answer for the same rule can never win again.
        self.entries
            .retain(|entry| entry.answer == 0 || entry.rule != rule);
        self.entries.push(PolicyEntry {
            rule,
            stance,
            answer: latest.unwrap_or(0) + 1,
        });
    }

    /// The winning rule for this target.
    pub fn find(&self, target: &ConnectTarget) -> Option<(&EgressRule, EgressAction)> {
        let matching = || {
            self.entries
                .iter()
                .filter(|entry| entry.rule.matches(target))
        };
        let counts =
            matching().max_by_key(|entry| (entry.rule.rank(), entry.answer, entry.stance))?;
        if counts.stance != EgressAction::Allow {
            return Some((&counts.rule, counts.stance));
        }
        // Prefer an allowing rule with a port, since it allows any protocol.
        let named = matching()
            .filter(|entry| entry.stance == EgressAction::Allow)
            .find(|entry| entry.rule.names_port());
        Some((&named.unwrap_or(counts).rule, EgressAction::Allow))
    }

    /// The rule that allows this target.
    pub(crate) fn find_allow_rule(&self, target: &ConnectTarget) -> Option<&EgressRule> {
        match self.find(target) {
            Some((rule, EgressAction::Allow)) => Some(rule),
            _ => None,
        }
    }

    /// The allowing rules that no equal rule overrides, in the order given.
    pub fn allowed(&self) -> Vec<EgressRule> {
        let mut allowed: Vec<EgressRule> = Vec::new();
        for entry in &self.entries {
            let counts = self
                .entries
                .iter()
                .filter(|other| other.rule == entry.rule)
                .max_by_key(|other| (other.answer, other.stance));
            let is_open = counts.is_some_and(|counts| counts.stance == EgressAction::Allow);
            if is_open && !allowed.contains(&entry.rule) {
                allowed.push(entry.rule.clone());
            }
        }
        allowed
    }

    /// Whether a host that `rule` allows may be reached at this address. Allowed are public addresses,
    /// addresses that a rule allows itself, and the loopback for `localhost`; never an address that a
    /// rule denies. Returns the class in either case.
    pub(crate) fn permit(
        &self,
        rule: &EgressRule,
        address: IpAddr,
        port: u16,
    ) -> Result<AddressClass, AddressClass> {
        let class = address::classify(address);
        // A translated address leads to the same host, so a denial applies to both forms.
        let translated = address::effective_address(address);
        if self.action_for_address(translated, port) == Some(EgressAction::Deny) {
            return Err(AddressClass::Denied);
        }
        match self.action_for_address(address, port) {
            Some(EgressAction::Deny) => return Err(AddressClass::Denied),
            Some(EgressAction::Allow) => return Ok(class),
            Some(EgressAction::Ask) | None => {}
        }
        if class == AddressClass::Public {
            return Ok(class);
        }
        let loopback = [
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
        ];
        if rule.is_localhost() && loopback.contains(&address.to_canonical()) {
            return Ok(class);
        }
        Err(class)
    }

    /// Whether a rule allows exactly this address.
    pub(crate) fn names(&self, address: IpAddr, port: u16) -> bool {
        self.action_for_address(address, port) == Some(EgressAction::Allow)
    }

    fn action_for_address(&self, address: IpAddr, port: u16) -> Option<EgressAction> {
        let target = ConnectTarget {
            host: Host::Address(address.to_canonical()),
            port,
        };
        self.find(&target).map(|(_, stance)| stance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(rules: &[(&str, EgressAction)], answers: &[(&str, EgressAction)]) -> EgressPolicy {
        let mut policy = EgressPolicy::default();
        for (rule, stance) in rules {
            policy.add(rule.parse().unwrap(), *stance);
        }
        for (rule, stance) in answers {
            policy.answer(rule.parse().unwrap(), *stance);
        }
        policy
    }

    #[track_caller]
    fn check(
        rules: &[(&str, EgressAction)],
        answers: &[(&str, EgressAction)],
        target: &str,
        expect: Option<(&str, EgressAction)>,
    ) {
        let policy = policy(rules, answers);
        let target = ConnectTarget::parse(target, None).unwrap();
        let found = policy
            .find(&target)
            .map(|(rule, stance)| (rule.to_string(), stance));
        let expect = expect.map(|(rule, stance)| (rule.to_owned(), stance));
        assert_eq!(found, expect, "{rules:?} {answers:?} {target}");
    }

    use EgressAction::{Allow as Yes, Ask, Deny};

    #[test]
    fn the_rule_that_says_the_most_counts() {
        check(&[], &[], "a.com:443", None);
        check(
            &[("*.a.com", Yes), ("x.a.com", Deny)],
            &[],
            "x.a.com:443",
            Some(("x.a.com", Deny)),
        );
        check(
            &[("*.a.com", Deny), ("x.a.com", Yes)],
            &[],
            "x.a.com:443",
            Some(("x.a.com", Yes)),
        );
        check(
            &[("*.com", Yes), ("*.a.com", Ask)],
            &[],
            "x.a.com:443",
            Some(("*.a.com", Ask)),
        );
        check(
            &[("a.com", Yes), ("a.com:443", Deny)],
            &[],
            "a.com:443",
            Some(("a.com:443", Deny)),
        );
        check(
            &[("a.com", Yes), ("a.com:443", Deny)],
            &[],
            "a.com:80",
            Some(("a.com", Yes)),
        );
        check(&[("a.com", Deny)], &[], "a.com:22", None);
    }

    #[test]
    fn among_equals_the_strictest_counts() {
        for rules in [
            [("a.com", Yes), ("a.com", Ask), ("a.com", Deny)],
            [("a.com", Deny), ("a.com", Ask), ("a.com", Yes)],
        ] {
            check(&rules, &[], "a.com:443", Some(("a.com", Deny)));
        }
        check(
            &[("a.com", Ask), ("a.com", Yes)],
            &[],
            "a.com:443",
            Some(("a.com", Ask)),
        );
    }

    #[test]
    fn answers_count_before_rules_that_say_as_much() {
        check(
            &[("a.com", Ask)],
            &[("a.com", Yes)],
            "a.com:443",
            Some(("a.com", Yes)),
        );
        check(
            &[("a.com", Deny)],
            &[("a.com", Yes)],
            "a.com:443",
            Some(("a.com", Yes)),
        );
        check(
            &[],
            &[("a.com", Deny), ("a.com", Yes)],
            "a.com:443",
            Some(("a.com", Yes)),
        );
        check(
            &[],
            &[("a.com", Yes), ("a.com", Deny)],
            "a.com:443",
            Some(("a.com", Deny)),
        );
        // More specific rules still win.
        check(
            &[("x.a.com", Deny)],
            &[("*.a.com", Yes)],
            "x.a.com:443",
            Some(("x.a.com", Deny)),
        );
    }

    /// A rule with a port allows any protocol.
    #[test]
    fn of_what_is_allowed_the_rule_with_a_port_is_named() {
        check(
            &[("*.a.com:443", Yes), ("x.a.com", Yes)],
            &[],
            "x.a.com:443",
            Some(("*.a.com:443", Yes)),
        );
    }

    #[test]
    fn what_is_open_can_be_listed() {
        let check =
            |rules: &[(&str, EgressAction)], answers: &[(&str, EgressAction)], expect: &[&str]| {
                let allowed = policy(rules, answers).allowed();
                let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
                assert_eq!(allowed, expect);
            };
        check(&[("a.com", Yes), ("b.com", Ask)], &[], &["a.com"]);
        check(&[("a.com", Yes), ("a.com", Yes)], &[], &["a.com"]);
        check(&[("a.com", Yes), ("a.com", Deny)], &[], &[]);
        check(&[("a.com", Ask)], &[("a.com", Yes)], &["a.com"]);
        check(&[("a.com", Yes)], &[("a.com", Deny)], &[]);
    }

    #[test]
    fn a_denied_address_is_denied_under_every_name() {
        let policy = policy(&[("a.com", Yes), ("8.8.8.8", Deny)], &[]);
        let target = ConnectTarget::parse("a.com:443", None).unwrap();
        let rule = policy.find_allow_rule(&target).unwrap();
        let permit = |address: &str| policy.permit(rule, address.parse().unwrap(), 443);
        assert_eq!(permit("8.8.8.8"), Err(AddressClass::Denied));
        assert_eq!(permit("::ffff:8.8.8.8"), Err(AddressClass::Denied));
        assert_eq!(permit("64:ff9b::8.8.8.8"), Err(AddressClass::Denied));
        assert_eq!(permit("8.8.4.4"), Ok(AddressClass::Public));
    }
}
