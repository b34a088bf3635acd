//! No command changes something because of the start of an ID.
//!
//! The table names every command of the program. One that changes something on a server is run with the starts of the
//! IDs of what the server has, without a terminal: it must send no request that changes something.

use std::collections::BTreeSet;

use nomad_csi::cli::{Exit, pages};
use nomad_csi_wire::AGENT;

use crate::support::hermetic::{Redirect, run_in};
use crate::support::http_server::{ReceivedRequest, Reply, Server, response, text};

const NODE: &str = "84124d0e-1111-2222-3333-444455556666";
const ALLOC: &str = "5fc98185-17ff-26bc-a802-0c74fa471c99";

/// What a command does.
enum Command {
    /// It only has subcommands, reads, or changes files of this machine.
    NoChange,
    /// It changes what its files or words name exactly: the server or the provider compares them.
    Named,
    /// It changes something on a server. The words have the starts of IDs.
    Changes(&'static [&'static str]),
}

use Command::{Changes, Named, NoChange};

/// Every command, by the name of its page of the manual.
const COMMANDS: &[(&str, Command)] = &[
    ("nomad-csi", NoChange),
    ("nomad-csi-agent", NoChange),
    ("nomad-csi-agent-check", NoChange),
    ("nomad-csi-agent-etcd", NoChange),
    ("nomad-csi-agent-etcd-reclaim", Named),
    ("nomad-csi-agent-journal", NoChange),
    ("nomad-csi-agent-key", NoChange),
    ("nomad-csi-agent-key-rotate", NoChange),
    ("nomad-csi-agent-migrate", Named),
    ("nomad-csi-agent-node", NoChange),
    ("nomad-csi-agent-server", NoChange),
    ("nomad-csi-agent-tls", NoChange),
    ("nomad-csi-agent-tls-init", NoChange),
    ("nomad-csi-agent-tls-node", NoChange),
    ("nomad-csi-agent-tls-server", NoChange),
    ("nomad-csi-acl", NoChange),
    ("nomad-csi-acl-bootstrap", Named),
    ("nomad-csi-acl-policy", NoChange),
    ("nomad-csi-acl-policy-apply", Named),
    ("nomad-csi-acl-policy-delete", Named),
    ("nomad-csi-acl-policy-list", NoChange),
    ("nomad-csi-acl-policy-show", NoChange),
    ("nomad-csi-acl-token", NoChange),
    ("nomad-csi-acl-token-create", Named),
    ("nomad-csi-acl-token-delete", Named),
    ("nomad-csi-acl-token-list", NoChange),
    ("nomad-csi-acl-token-self", NoChange),
    ("nomad-csi-acl-token-show", NoChange),
    ("nomad-csi-acl-token-update", Named),
    ("nomad-csi-alloc", NoChange),
    ("nomad-csi-alloc-fs", NoChange),
    ("nomad-csi-alloc-logs", NoChange),
    ("nomad-csi-alloc-restart", Changes(&["alloc restart 5fc9"])),
    ("nomad-csi-alloc-signal", Changes(&["alloc signal 5fc9 -s SIGHUP"])),
    ("nomad-csi-alloc-status", NoChange),
    ("nomad-csi-alloc-stop", Changes(&["alloc stop 5fc9 --detach"])),
    ("nomad-csi-apply", Named),
    ("nomad-csi-auth", NoChange),
    ("nomad-csi-auth-check", NoChange),
    ("nomad-csi-completion", NoChange),
    ("nomad-csi-context", NoChange),
    ("nomad-csi-context-add", NoChange),
    ("nomad-csi-context-list", NoChange),
    ("nomad-csi-context-show", NoChange),
    ("nomad-csi-context-use", NoChange),
    ("nomad-csi-convert", NoChange),
    ("nomad-csi-drift", NoChange),
    ("nomad-csi-explain", NoChange),
    ("nomad-csi-explain-function", NoChange),
    ("nomad-csi-explain-placement", NoChange),
    ("nomad-csi-fmt", NoChange),
    ("nomad-csi-forget", Changes(&["forget da --set web --ledger file:ledger"])),
    ("nomad-csi-help", NoChange),
    ("nomad-csi-import", Named),
    ("nomad-csi-job", NoChange),
    (
        "nomad-csi-job-dispatch",
        Changes(&["job dispatch we --detach", "job dispatch we --meta set=a"]),
    ),
    ("nomad-csi-job-history", NoChange),
    ("nomad-csi-job-lint", NoChange),
    ("nomad-csi-job-periodic", NoChange),
    ("nomad-csi-job-periodic-force", Changes(&["job periodic force we"])),
    ("nomad-csi-job-plan", NoChange),
    ("nomad-csi-job-restart", Changes(&["job restart we"])),
    ("nomad-csi-job-revert", Changes(&["job revert we 0"])),
    ("nomad-csi-job-run", Named),
    ("nomad-csi-job-status", NoChange),
    ("nomad-csi-job-stop", Changes(&["job stop we", "job stop we --purge --detach"])),
    ("nomad-csi-job-validate", NoChange),
    ("nomad-csi-lint", NoChange),
    ("nomad-csi-lsp", NoChange),
    ("nomad-csi-man", NoChange),
    ("nomad-csi-namespace", NoChange),
    ("nomad-csi-namespace-create", Named),
    ("nomad-csi-namespace-delete", Named),
    ("nomad-csi-namespace-list", NoChange),
    ("nomad-csi-node", NoChange),
    (
        "nomad-csi-node-drain",
        Changes(&["node drain 8412 --enable --detach", "node drain 8412 --disable"]),
    ),
    (
        "nomad-csi-node-eligibility",
        Changes(&["node eligibility 8412 --disable", "node eligibility 8412 --enable"]),
    ),
    ("nomad-csi-node-fence", Changes(&["node fence 8412 --powered-off --yes"])),
    ("nomad-csi-node-status", NoChange),
    ("nomad-csi-node-unfence", Changes(&["node unfence 8412"])),
    (
        "nomad-csi-orphans",
        Changes(&["orphans --plugin ebs --delete-data vol --approve destroys-data:vol"]),
    ),
    ("nomad-csi-plan", NoChange),
    ("nomad-csi-plugin", NoChange),
    ("nomad-csi-plugin-check", NoChange),
    ("nomad-csi-plugin-diff", NoChange),
    ("nomad-csi-plugin-impact", NoChange),
    ("nomad-csi-plugin-probe", NoChange),
    ("nomad-csi-plugin-serve", NoChange),
    ("nomad-csi-plugin-snapshot", NoChange),
    ("nomad-csi-plugin-status", NoChange),
    ("nomad-csi-plugin-wait", NoChange),
    ("nomad-csi-reconcile", Named),
    ("nomad-csi-render", NoChange),
    ("nomad-csi-schema", NoChange),
    ("nomad-csi-set", NoChange),
    ("nomad-csi-set-list", NoChange),
    ("nomad-csi-set-show", NoChange),
    ("nomad-csi-snapshot", NoChange),
    ("nomad-csi-snapshot-create", Changes(&["snapshot create da --name s"])),
    ("nomad-csi-snapshot-delete", Named),
    ("nomad-csi-snapshot-list", NoChange),
    ("nomad-csi-validate", NoChange),
    ("nomad-csi-version", NoChange),
    ("nomad-csi-volume", NoChange),
    ("nomad-csi-volume-modify", Changes(&["volume modify da iops=100"])),
    ("nomad-csi-volume-abandon", Changes(&["volume abandon da --yes"])),
    (
        "nomad-csi-volume-claim",
        Changes(&[
            "volume claim da --alloc 5fc98185-17ff-26bc-a802-0c74fa471c99",
            "volume claim data --alloc 5fc98185-17ff-26bc-a802-0c74fa471c99 --node 8412",
        ]),
    ),
    ("nomad-csi-volume-claims", NoChange),
    ("nomad-csi-volume-create", Named),
    (
        "nomad-csi-volume-delete",
        Changes(&["volume delete da --yes", "volume delete da --yes --if-exists"]),
    ),
    (
        "nomad-csi-volume-deregister",
        Changes(&["volume deregister da --yes", "volume deregister da --force --yes"]),
    ),
    (
        "nomad-csi-volume-detach",
        Changes(&[
            "volume detach da 84124d0e-1111-2222-3333-444455556666",
            "volume detach data 8412",
        ]),
    ),
    ("nomad-csi-volume-doctor", NoChange),
    ("nomad-csi-volume-expand", Changes(&["volume expand da --size 2GiB --yes"])),
    ("nomad-csi-volume-init", NoChange),
    ("nomad-csi-volume-register", Named),
    (
        "nomad-csi-volume-release",
        Changes(&[
            "volume release da --alloc 5fc98185-17ff-26bc-a802-0c74fa471c99",
            "volume release da --alloc 5fc9 --approve cuts-off:5fc9",
        ]),
    ),
    ("nomad-csi-volume-status", NoChange),
    ("nomad-csi-volume-wait", NoChange),
];

/// A command that is new has to be classified here.
#[test]
fn every_command_is_in_the_table() {
    let pages = pages();
    let names: BTreeSet<&str> = pages.iter().map(|page| page.file.trim_end_matches(".1")).collect();
    let table: BTreeSet<&str> = COMMANDS.iter().map(|(name, _)| *name).collect();
    assert_eq!(table, names);
    assert_eq!(table.len(), COMMANDS.len());
}

/// An agent with one object of each kind, whose IDs are longer than the words of the table.
fn agent(request: &ReceivedRequest, _: usize) -> Reply {
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    let node = format!(
        r#"{{"ID":"{NODE}","Name":"worker","Status":"ready","SchedulingEligibility":"eligible"}}"#
    );
    let alloc = format!(
        r#"{{"ID":"{ALLOC}","JobID":"web-db","Namespace":"default","NodeID":"{NODE}","ClientStatus":"complete","DesiredStatus":"stop"}}"#
    );
    let job = r#"{"ID":"web-db","Name":"web-db","Namespace":"default","Type":"batch","Status":"running"}"#;
    let volume = format!(
        r#"{{"ID":"data","Name":"data","Namespace":"default","ExternalID":"vol-1","PluginID":"ebs","Allocations":[{alloc}],"WriteAllocs":{{"{ALLOC}":null}},"RequestedCapabilities":[{{"AccessMode":"single-node-writer","AttachmentMode":"file-system"}}]}}"#
    );
    let plugin =
        r#"{"ID":"ebs","ControllerRequired":true,"ControllersExpected":1,"ControllersHealthy":1}"#;
    let is_unknown = path.starts_with("/v1/volume/csi/") && path != "/v1/volume/csi/data";
    let body = match path {
        _ if is_unknown => return text(404, "volume not found"),
        "/v1/regions" => r#"["global"]"#.to_owned(),
        "/v1/agent/self" => r#"{"config":{"Version":{"Version":"2.0.6"}}}"#.to_owned(),
        "/v1/nodes" => format!("[{node}]"),
        "/v1/jobs" => format!("[{job}]"),
        "/v1/allocations" => format!("[{alloc}]"),
        "/v1/plugins" => format!("[{plugin}]"),
        "/v1/volumes" if query.contains("type=host") => "[]".to_owned(),
        "/v1/volumes" => format!("[{volume}]"),
        "/v1/volume/csi/data" => volume,
        "/v1/volumes/creations" => {
            r#"[{"ID":"data","Namespace":"default","PluginID":"ebs","Creation":{"ProviderName":"data-1"}}]"#.to_owned()
        }
        "/v1/plugin/csi/ebs" => plugin.to_owned(),
        _ if path.starts_with("/v1/node/") => node,
        _ if path.starts_with("/v1/allocation/") => alloc,
        _ if path.starts_with("/v1/job/") => job.to_owned(),
        _ => "[]".to_owned(),
    };
    let headers = [("X-Nomad-Index", "7"), (AGENT, "1")];
    response(200, "application/json", &headers, body.as_bytes())
}

#[test]
fn the_start_of_an_id_changes_nothing_without_a_person() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let mut count = 0;
    for (name, command) in COMMANDS {
        let Changes(lines) = command else {
            continue;
        };
        for line in *lines {
            let directory = tempfile::tempdir().expect("a new directory");
            let server = runtime.block_on(Server::start(agent));
            let result = run_in(directory.path(), line, |environment| {
                environment.servers = std::sync::Arc::new(Redirect::to(&server.url()));
            });
            let seen = server.requests();
            let changes: Vec<String> = seen
                .iter()
                .filter(|request| request.method != "GET")
                .map(ReceivedRequest::line)
                .collect();
            assert_eq!(changes, [] as [&str; 0], "{name}: {line}: {}", result.text);
            // What does not exist is no error for this flag.
            let may_succeed = line.contains("--if-exists");
            assert!(may_succeed || result.exit != Exit::Done, "{line}: {}", result.text);
            assert!(!result.text.contains("Usage:"), "{line}: {}", result.text);
            count += 1;
        }
    }
    assert!(count >= 20, "{count}");
}
