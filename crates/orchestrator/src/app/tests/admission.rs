//! Which requests are refused, and with what message.

use std::time::Duration;

use egress::AllowList;
use protocol::job::{JobInput, JobRequest, Webhook};
use protocol::{Backend, Budget, Limits, Strength};
use sandbox::Network;

use super::script::text;
use super::test_server::{TestSite, task, within};
use crate::app::{App, AppError, Caller};
use crate::own_network;

#[test]
fn a_request_is_checked_against_the_policy() {
    within(async {
        let mut site = TestSite::new();
        site.scripts.add("priceless", [text("done")]);
        let policy = &mut site.config.policy;
        policy.timeout = Duration::from_secs(100);
        policy.budget.cost = Some(5.0);
        policy.budget.turns = Some(50);
        let allowed = AllowList::parse(["10.0.0.1:5432", "pypi.org"]).unwrap();
        policy.sandbox.network = Network::Allow(allowed);
        policy.sandbox.limits.cpus = 2.0;
        // The jobs never run: there is no dispatcher.
        let server = site.server().await;
        let app = App::new(server.parts().clone());
        let check = async |request: JobRequest, expect: Option<&str>| {
            let caller = Caller::local();
            let outcome = app.schedule(&caller, request.clone(), None, None).await;
            match (outcome, expect) {
                (Ok(_), None) => {}
                (Err(error @ (AppError::Invalid(_) | AppError::UploadNamed)), Some(expect)) => {
                    let reason = error.to_string();
                    assert!(reason.starts_with(expect), "`{expect}` in `{reason}`");
                    assert!(!reason.contains('\n'));
                }
                (outcome, expect) => panic!("{outcome:?} for {request:?}, not {expect:?}"),
            }
        };
        let good = || task("good");
        check(good(), None).await;
        check(task(""), Some("task: ")).await;
        check(task(" \n\t"), Some("task: ")).await;
        check(task("\0\u{1b}\u{85}\u{a0}"), Some("task: ")).await;
        check(task(&"x".repeat((1 << 20) + 1)), Some("task: ")).await;
        check(task(&"x".repeat(1 << 20)), None).await;

        let limits = |limits| JobRequest { limits, ..good() };
        let none = Limits::default();
        let cpus = |cpus| {
            limits(Limits {
                cpus: Some(cpus),
                ..none
            })
        };
        check(cpus(1.5), None).await;
        for bad in [0.0, -1.0, 0.001, f64::NAN, f64::INFINITY, 2.5] {
            check(cpus(bad), Some("limits.cpus: ")).await;
        }
        let memory = |memory| {
            limits(Limits {
                memory: Some(memory),
                ..none
            })
        };
        check(memory(8 << 20), None).await;
        for bad in [0, 1, (8 << 20) - 1] {
            check(memory(bad), Some("limits.memory: a memory limit of")).await;
        }
        check(memory(u64::MAX), Some("limits.memory: at most")).await;
        for bad in [0, 1] {
            let disk = Limits {
                disk: Some(bad),
                ..none
            };
            check(limits(disk), Some("limits.disk: ")).await;
        }
        for bad in [0, 1, u32::MAX] {
            let pids = Limits {
                pids: Some(bad),
                ..none
            };
            check(limits(pids), Some("limits.pids: ")).await;
        }
        for bad in [0, 1] {
            let open_files = Limits {
                open_files: Some(bad),
                ..none
            };
            check(limits(open_files), Some("limits.open_files: ")).await;
        }

        let budget = |budget| JobRequest { budget, ..good() };
        let none = Budget::default();
        let cost = |cost| {
            budget(Budget {
                cost: Some(cost),
                ..none
            })
        };
        check(cost(5.0), None).await;
        for bad in [0.0, -0.1, f64::NAN, 5.1] {
            check(cost(bad), Some("budget.cost: ")).await;
        }
        let turns = |turns| {
            budget(Budget {
                turns: Some(turns),
                ..none
            })
        };
        check(turns(50), None).await;
        check(turns(51), Some("budget.turns: ")).await;
        check(turns(0), Some("budget.turns: ")).await;
        let model = |model: &str, request| JobRequest {
            model: Some(model.to_owned()),
            ..request
        };
        check(model("priceless", good()), None).await;
        check(model("priceless", cost(1.0)), Some("budget.cost: ")).await;
        check(
            model("nobody", good()),
            Some("model: there is no model `nobody`"),
        )
        .await;

        let timeout = |timeout| JobRequest {
            timeout: Some(timeout),
            ..good()
        };
        check(timeout(100), None).await;
        check(timeout(0), Some("timeout: ")).await;
        check(timeout(101), Some("timeout: at most 100")).await;

        let network = |rule: &str| JobRequest {
            network: vec![rule.to_owned()],
            ..good()
        };
        for rule in [
            "example.com",
            "*.example.com:443",
            "8.8.8.8",
            "10.0.0.1:5432",
        ] {
            check(network(rule), None).await;
        }
        for rule in [
            "http://example.com/",
            "*",
            "localhost",
            "localhost:80",
            "LOCALHOST.",
            "127.0.0.1",
            "10.0.0.1",
            "10.0.0.1:80",
            "169.254.169.254",
            "[::1]",
            "[::ffff:10.0.0.1]:80",
            "0x7f000001",
        ] {
            check(network(rule), Some("network: ")).await;
        }

        let input = |input| JobRequest {
            input: Some(input),
            ..good()
        };
        let git = |url: &str| {
            input(JobInput::Git {
                url: url.to_owned(),
                branch: None,
            })
        };
        check(git("https://example.com/a.git"), None).await;
        check(git("http://example.com/a.git"), Some("input: ")).await;
        check(git("file:///etc"), Some("input: ")).await;
        check(input(JobInput::Upload { bytes: 1 }), Some("input: ")).await;

        let webhook = |url: &str| JobRequest {
            webhook: Some(Webhook {
                url: url.to_owned(),
                secret: None,
            }),
            ..good()
        };
        check(webhook("https://example.com/hook"), None).await;
        check(webhook("ftp://example.com/hook"), Some("webhook.url: ")).await;
        check(webhook("example.com"), Some("webhook.url: ")).await;
    });
}

#[test]
fn walls_weaker_than_required_are_refused() {
    within(async {
        let check = async |server: (Backend, Strength),
                           job: (Option<Backend>, Option<Strength>),
                           expect: Option<&str>| {
            let mut site = TestSite::new();
            let policy = &mut site.config.policy;
            (policy.sandbox.backend, policy.sandbox.require) = server;
            let server = site.server().await;
            let app = App::new(server.parts().clone());
            let request = JobRequest {
                backend: job.0,
                require: job.1,
                ..task("good")
            };
            let outcome = app.schedule(&Caller::local(), request, None, None).await;
            match (outcome, expect) {
                (Ok(_), None) => {}
                (Err(AppError::Invalid(reason)), Some(expect)) => assert_eq!(reason, expect),
                (outcome, expect) => panic!("{outcome:?} for {job:?}, not {expect:?}"),
            }
        };
        let open = (Backend::Auto, Strength::None);
        let strict = (Backend::Auto, Strength::Kernel);
        use Strength::{Kernel, Namespaces, Vm};
        check(open, (None, Some(Vm)), None).await;
        check(open, (Some(Backend::Native), Some(Namespaces)), None).await;
        check(
            open,
            (Some(Backend::Podman), Some(Vm)),
            Some("backend: the walls of `podman` are `namespaces`, and `vm` is required"),
        )
        .await;
        check(
            open,
            (Some(Backend::None), None),
            Some("backend: a job requires a sandbox"),
        )
        .await;
        check(strict, (None, None), None).await;
        check(strict, (Some(Backend::Gvisor), None), None).await;
        check(strict, (Some(Backend::Microvm), Some(Vm)), None).await;
        check(
            strict,
            (Some(Backend::Native), None),
            Some("backend: the walls of `native` are `namespaces`, and `kernel` is required"),
        )
        .await;
        // A job cannot ask for less than the server does.
        check(
            strict,
            (Some(Backend::Native), Some(Namespaces)),
            Some("backend: the walls of `native` are `namespaces`, and `kernel` is required"),
        )
        .await;
        check(
            (Backend::Native, Strength::None),
            (None, Some(Kernel)),
            Some("require: the walls of `native` are `namespaces`, and `kernel` is required"),
        )
        .await;
    });
}

#[test]
fn a_job_cannot_open_the_servers_own_public_address() {
    if !own_network::enter_or_rerun(
        "app::tests::admission::a_job_cannot_open_the_servers_own_public_address",
    ) {
        return;
    }
    within(async {
        let site = TestSite::new();
        let server = site.server().await;
        let app = App::new(server.parts().clone());
        let schedule = async |rule: String| {
            let request = JobRequest {
                network: vec![rule],
                ..task("good")
            };
            app.schedule(&Caller::local(), request, None, None).await
        };
        for host in own_network::SPELLINGS {
            for rule in [host.to_owned(), format!("{host}:22")] {
                match schedule(rule.clone()).await {
                    Err(AppError::Invalid(reason)) => {
                        assert!(reason.starts_with("network: "), "{rule}: {reason}");
                    }
                    other => panic!("{rule}: {other:?}"),
                }
            }
        }
        schedule("203.0.114.9".to_owned()).await.unwrap();
    });
}
