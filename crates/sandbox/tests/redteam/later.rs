//! Lines of the list that the walls do not, or not fully, cover at present, with the reason.

/// What is missing, and what it depends on.
const UNCOVERED_LINES: &[(u32, &str)] = &[
    (
        18,
        "git: the host runs none yet; then it never runs it in a work tree",
    ),
    (19, "git: as line 18, for nested repositories"),
    (20, "git: as line 18, for configuration that names programs"),
    (21, "git: as line 18, for filters and textconv"),
    (22, "git: as line 18, for submodules and worktree files"),
    (
        23,
        "the command line reads `.env` and settings; its own tests see to the workspace's",
    ),
    (24, "git: arguments and file names are passed to no git yet"),
    (
        57,
        "answers that change need a name server; the tests of `egress` have one",
    ),
    (
        66,
        "a rule is trust in that host; the documentation of `egress` says so",
    ),
    (
        69,
        "jobs: the isolation matrix of `orchestrator`; its network opens no address of the host",
    ),
    (
        73,
        "taming escapes and HTML is for whoever shows them: tests of `cli`, and its browser tests",
    ),
    (
        76,
        "what the server logs beside the audit log is looked through by its tests in `cli`",
    ),
    (
        77,
        "artifacts: `orchestrator` packs them; its tests of `artifact` play this line",
    ),
    (78, "artifacts: as line 77"),
    (79, "artifacts: as line 77"),
    (80, "artifacts: as line 77"),
    (81, "artifacts: as line 77"),
    (82, "artifacts: as line 77"),
    (
        97,
        "the command line reads `.env`: `left_behind` among the tests of `cli`",
    ),
    (98, "the default workspace: as line 97"),
    (99, "reading `.env`: as line 97"),
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
    for number in (1..=85).chain([87]).chain(89..=96) {
        let tried = groups
            .iter()
            .copied()
            .flatten()
            .any(|attack| attack.number == number);
        let explained = UNCOVERED_LINES.iter().any(|(line, _)| *line == number);
        assert!(tried || explained, "line {number}");
    }
}
