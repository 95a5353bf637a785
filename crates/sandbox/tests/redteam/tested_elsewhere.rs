//! Lines of the list of attacks that this suite does not try, with the tests that do, or the reason.
//!
//! [`every_line_of_the_list_is_tried_or_has_a_reason`] keeps the list complete.

/// Lines of the list of attacks, 1 to this number.
const LINES: u32 = 112;

/// The line, and where it is tested or why it is not.
const TESTED_ELSEWHERE: &[(u32, &str)] = &[
    (18, "the host runs no git yet, so no hook runs"),
    (19, "as line 18, for nested repositories"),
    (20, "as line 18, for configuration that names programs"),
    (21, "as line 18, for filters and textconv"),
    (22, "as line 18, for submodules and worktree files"),
    (
        23,
        "`cli`: `left_behind` reads planted `.env` files and settings",
    ),
    (24, "as line 18, for arguments and file names"),
    (
        57,
        "`egress`: its tests have a name server whose answers change",
    ),
    (66, "a rule trusts its host; docs/network.md says so"),
    (69, "`orchestrator`: `http_isolation`"),
    (
        73,
        "`cli`, `tui` and the browser tests: escapes and HTML are cleaned where they are shown",
    ),
    (76, "`cli`: `serve secrets`"),
    (77, "`orchestrator`: tests of `artifact` and `input`"),
    (78, "as line 77"),
    (79, "as line 77"),
    (80, "as line 77"),
    (81, "as line 77"),
    (82, "as line 77"),
    (97, "`cli`: `left_behind`"),
    (98, "as line 97"),
    (99, "as line 97"),
    (102, "`link`: `hostile`; `sandbox`: `hostile_guest`"),
    (103, "`sandbox`: `hostile_guest`"),
    (105, "`agent`: `approvals`"),
    (
        106,
        "`orchestrator`: tests of `worker::log`; `tui`: tests of `text`",
    ),
    (107, "`cli`: `serve descriptors`"),
    (108, "`orchestrator`: `http_limits`"),
    (109, "`orchestrator`: `http_uploads`"),
    (110, "`orchestrator`: tests of `input`"),
    (
        111,
        "`egress`, and `orchestrator`: tests of `webhook`, `input` and `app::admission`",
    ),
    (
        112,
        "`orchestrator`: `http_keyless`, and tests of `http::guard::owner`",
    ),
];

#[test]
fn every_line_of_the_list_is_tried_or_has_a_reason() {
    let groups = [
        crate::files::ATTACKS,
        crate::configuration::ATTACKS,
        crate::kernel::ATTACKS,
        crate::exhaustion::ATTACKS,
        crate::disk::ATTACKS,
        crate::processes::ATTACKS,
        crate::network::ATTACKS,
        crate::output::ATTACKS,
        crate::shared::ATTACKS,
        crate::sockets::ATTACKS,
    ];
    for number in 1..=LINES {
        let tried = groups
            .iter()
            .copied()
            .flatten()
            .any(|attack| attack.number == number);
        let explained = TESTED_ELSEWHERE.iter().any(|(line, _)| *line == number);
        assert!(tried || explained, "line {number}");
    }
}
