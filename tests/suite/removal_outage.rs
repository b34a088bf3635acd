//! `volume delete` of several volumes at the same time from a server that goes away in the middle: what is said of each volume
//! is what happened to it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use nomad_csi::cli::Exit;
use tokio::runtime::{Builder, Runtime};

use crate::support::hermetic::{Redirect, run_in};
use crate::support::http_server::{ReceivedRequest, Reply, Server, json, response, text};

const VOLUMES: usize = 8;
/// The server goes away at the removal after this number of them.
const DELETED: usize = 3;

/// What the server has received.
#[derive(Default)]
struct Seen {
    deleted: BTreeSet<String>,
    /// The removals that got no response.
    lost: BTreeSet<String>,
    is_away: bool,
}

/// A server that deletes some volumes and then closes every connection without a response.
struct Leaving {
    server: Server,
    seen: Arc<Mutex<Seen>>,
    _runtime: Runtime,
}

impl Leaving {
    fn start() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("the runtime starts");
        let seen = Arc::<Mutex<Seen>>::default();
        let script = Arc::clone(&seen);
        let server = runtime.block_on(Server::start(move |request, _| {
            respond(&mut script.lock().expect("unpoisoned"), request)
        }));
        Self { server, seen, _runtime: runtime }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().expect("unpoisoned")
    }
}

fn respond(seen: &mut Seen, request: &ReceivedRequest) -> Reply {
    let path = request.target.split('?').next().unwrap_or_default();
    let volume = path.strip_prefix("/v1/volume/csi/");
    if let ("DELETE", Some(volume)) = (&*request.method, volume) {
        let id = volume.trim_end_matches("/delete").to_owned();
        seen.is_away |= seen.deleted.len() == DELETED;
        if seen.is_away {
            seen.lost.insert(id);
            return Reply::Close;
        }
        seen.deleted.insert(id);
        return response(200, "application/json", &[], b"");
    }
    if seen.is_away {
        return Reply::Close;
    }
    match (path, volume) {
        (_, Some(id)) if seen.deleted.contains(id) => text(404, "volume not found"),
        (_, Some(id)) => json(&format!(
            r#"{{"ID":"{id}","Namespace":"default","ExternalID":"vol-{id}","PluginID":"ebs0","ModifyIndex":21}}"#
        )),
        ("/v1/agent/self", None) => json(r#"{"config":{"Version":{"Version":"2.0.5"}}}"#),
        ("/v1/regions", None) => json(r#"["global"]"#),
        ("/v1/acl/token/self", None) => {
            json(r#"{"AccessorID":"acls-disabled","Name":"ACLs Disabled Token","Type":"client"}"#)
        }
        (_, None) => json("[]"),
    }
}

#[test]
fn each_removal_that_an_outage_meets_is_reported_as_it_ended() {
    for parallelism in [1, 4, VOLUMES] {
        let server = Leaving::start();
        let directory = tempfile::tempdir().expect("a directory can be made");
        let ids: Vec<String> = (0..VOLUMES).map(|number| format!("v{number}")).collect();
        let line = format!(
            "volume delete {} --yes --ledger none --server-wait 1s --parallelism {parallelism}",
            ids.join(" ")
        );
        let url = server.server.url();
        let run = run_in(directory.path(), &line, |environment| {
            environment.servers = Arc::new(Redirect::to(&url));
        });
        let seen = server.seen();
        assert_eq!(seen.deleted.len(), DELETED, "{}", run.text);
        assert_eq!(run.exit, Exit::Error, "{}", run.text);
        for id in &ids {
            let about = run.text.lines().filter(|line| {
                let is_error =
                    line.starts_with("2> error[") && line.contains(&format!("volume `{id}`"));
                is_error
                    || line.starts_with(&format!("2> volume {id}: "))
                    || line.starts_with(&format!("2>  = note: volume `{id}` was not "))
            });
            let all: Vec<&str> = about.collect();
            let has = |words: &str| all.iter().any(|line| line.contains(words));
            let (is_deleted, is_lost) = (seen.deleted.contains(id), seen.lost.contains(id));
            let case = format!("{parallelism} {id}: {}", run.text);
            assert_eq!(has(": deleted"), is_deleted, "{case}");
            assert_eq!(has("error[api/outcome-unknown]"), is_lost, "{case}");
            assert!(!has(": not started") || !is_deleted && !is_lost, "{case}");
            assert!(!all.is_empty() && (!is_deleted || all.len() == 1), "{case}");
        }
    }
}
