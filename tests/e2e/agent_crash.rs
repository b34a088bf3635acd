//! `kill -9` of the agent and of the plugin during creates.
//!
//! Acknowledged volumes survive, a repeated request creates the others, and the provider has no
//! unknown volume (W14).

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::agent_process::{AgentProcess, processes_with, program, signal_process};
use crate::http::Address;
use crate::volumes::{assert_volumes, create, is_healthy, list};
use crate::wait::{spin, until, until_true};

const ROUNDS: usize = 12;
const CLIENTS: usize = 4;

/// W14: acknowledged creates are kept, and interrupted ones are completed, not duplicated.
#[test]
fn an_agent_killed_during_creates_neither_loses_nor_duplicates_volumes() {
    let data = tempfile::tempdir().unwrap();
    let mut asked = BTreeSet::new();
    let mut acknowledged = BTreeSet::new();
    for round in 0..ROUNDS {
        let agent = AgentProcess::start(data.path());
        let there: BTreeSet<String> = list(&agent.address).into_iter().map(|(id, _)| id).collect();
        assert!(acknowledged.is_subset(&there), "lost: {:?}", acknowledged.difference(&there));
        let (more_asked, more_acknowledged) = create_until_killed(agent, round);
        asked.extend(more_asked);
        acknowledged.extend(more_acknowledged);
    }
    assert!(asked.len() > acknowledged.len(), "no create was interrupted");
    let agent = AgentProcess::start(data.path());
    for id in &asked {
        create(&agent.address, id).unwrap().json();
    }
    assert_volumes(&agent.address, &asked);
}

/// Four clients create volumes until the agent is killed, at another moment each round. Returns the
/// requested and the acknowledged volumes.
fn create_until_killed(agent: AgentProcess, round: usize) -> (BTreeSet<String>, BTreeSet<String>) {
    let (asked, acknowledged) = (Mutex::new(BTreeSet::new()), Mutex::new(BTreeSet::new()));
    let answers = AtomicUsize::new(0);
    let address = agent.address.clone();
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (asked, acknowledged, answers, address) =
                (&asked, &acknowledged, &answers, &address);
            scope.spawn(move || {
                for number in 0.. {
                    let id = format!("v{round}-{client}-{number}");
                    asked.lock().unwrap().insert(id.clone());
                    let Ok(answer) = create(address, &id) else {
                        return;
                    };
                    assert_eq!(answer.status, 200, "{}", answer.text());
                    acknowledged.lock().unwrap().insert(id);
                    answers.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        until_true("some volumes", || answers.load(Ordering::Relaxed) >= round);
        spin(Duration::from_micros(u64::try_from(round * 397 % 5000).unwrap()));
        agent.kill();
    });
    (asked.into_inner().unwrap(), acknowledged.into_inner().unwrap())
}

/// The creations that did not end, as the agent shows them.
fn creations(agent: &Address) -> Vec<serde_json::Value> {
    let path = "/v1/volumes/creations?namespace=*";
    let answer = agent.ask("GET", path, None).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json().as_array().unwrap().clone()
}

/// W14: the agent is killed while the plugin hangs on a create, or has crashed before or after the work. The next agent
/// shows the creation, and ends it without a client: one volume, which is registered.
#[test]
fn an_interrupted_create_is_finished_without_a_client() {
    for fault in [
        "CreateVolume:hang:1",
        "CreateVolume:crash:1",
        "CreateVolume:crash-after:1",
        "CreateVolume:INTERNAL",
    ] {
        let data = tempfile::tempdir().unwrap();
        let start = |fault: Option<&str>| {
            let mut command = program(["agent", "--dev", "--http", "127.0.0.1:0"]);
            command.arg("--data-dir").arg(data.path());
            command.args(fault.into_iter().flat_map(|fault| ["--plugin-fault", fault]));
            AgentProcess::run(command)
        };
        let agent = start(Some(fault));
        until("the plugin to be healthy", || is_healthy(&agent.address));
        let address = agent.address.clone();
        let client = thread::spawn(move || create(&address, "db"));
        let pending = until("the creation to be shown", || {
            let pending = creations(&agent.address);
            (pending.len() == 1).then(|| pending[0].clone()).ok_or_else(|| format!("{pending:?}"))
        });
        assert_eq!(pending["ID"], "db", "{fault}");
        let name = pending["Creation"]["ProviderName"].as_str().unwrap();
        assert!(name.starts_with("csi-db-"), "{fault}: {name}");
        assert!(list(&agent.address).is_empty(), "{fault}: it is no volume yet");
        agent.kill();
        client.join().unwrap().ok();

        let agent = start(None);
        until("the creation to end", || {
            let pending = creations(&agent.address);
            pending.is_empty().then_some(()).ok_or_else(|| format!("{pending:?}"))
        });
        assert_volumes(&agent.address, &BTreeSet::from(["db".to_owned()]));
    }
}

/// W14: a creation that the plugin never answers is given up by a command, which names what may be left; the name is free
/// then.
#[test]
fn a_creation_is_given_up_by_a_command() {
    let data = tempfile::tempdir().unwrap();
    let mut command = program(["agent", "--dev", "--http", "127.0.0.1:0"]);
    command.arg("--data-dir").arg(data.path());
    command.args(["--plugin-fault", "CreateVolume:INTERNAL:1"]);
    command.args(["--plugin-fault", "CreateVolume:INVALID_ARGUMENT:1000"]);
    let agent = AgentProcess::run(command);
    until("the plugin to be healthy", || is_healthy(&agent.address));
    let failed = create(&agent.address, "db").unwrap();
    assert_eq!(failed.status, 500, "{}", failed.text());
    let client = |arguments: &[&str]| {
        let mut command = program(arguments);
        command.env("NOMAD_ADDR", format!("http://{}", agent.address.tcp()));
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, shown, _) = client(&["volume", "status"]);
    assert!(code == Some(0) && shown.contains("Creations that did not end"), "{shown}");
    let (_, json, _) = client(&["volume", "status", "-o", "json"]);
    assert!(json.contains("ProviderName"), "{json}");
    let (code, one, help) = client(&["volume", "status", "db"]);
    assert!(code == Some(0) && one.contains("being created"), "{one}");
    assert!(help.contains("volume abandon db"), "{help}");
    let (code, found, _) = client(&["volume", "doctor", "db", "--no-provider"]);
    assert!(code == Some(2) && found.contains("volume abandon db"), "{found}");
    let (_, _, warned) = client(&["orphans", "--plugin", "hostpath"]);
    assert!(warned.contains("the creation of volume `db` did not end"), "{warned}");
    let (code, _, refused) = client(&["volume", "abandon", "db"]);
    assert_eq!(code, Some(4), "{refused}");
    let (code, _, said) = client(&["volume", "abandon", "db", "--yes"]);
    assert!(code == Some(0) && said.contains("may have a volume named `csi-db-"), "{said}");
    assert!(creations(&agent.address).is_empty());
    let (code, _, said) = client(&["volume", "abandon", "db", "--yes"]);
    assert!(code == Some(1) && said.contains("no creation of volume `db` is pending"), "{said}");
}

/// The plugin is killed repeatedly; every create still succeeds, and each volume exists once.
#[test]
fn a_plugin_killed_during_creates_loses_no_volume() {
    let data = tempfile::tempdir().unwrap();
    let agent = AgentProcess::start(data.path());
    let done = AtomicBool::new(false);
    let ids = Mutex::new(BTreeSet::new());
    thread::scope(|scope| {
        let creating: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (address, ids) = (&agent.address, &ids);
                scope.spawn(move || {
                    for number in 0..15 {
                        let id = format!("v{client}-{number}");
                        until("the volume to be created", || {
                            let answer = create(address, &id).map_err(|error| error.to_string())?;
                            if answer.status == 200 { Ok(()) } else { Err(answer.text()) }
                        });
                        ids.lock().unwrap().insert(id);
                    }
                })
            })
            .collect();
        let killed = scope.spawn(|| kill_plugins(data.path(), &done));
        for client in creating {
            client.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
        let killed = killed.join().unwrap();
        assert!(killed > 1, "the plugin was killed {killed} times");
    });
    until("the plugin to be healthy", || is_healthy(&agent.address));
    assert_volumes(&agent.address, &ids.into_inner().unwrap());
}

/// Kills up to five plugins that run on `data`, one after another, and returns how many. The pauses
/// between restarts grow.
fn kill_plugins(data: &Path, done: &AtomicBool) -> usize {
    let state = data.to_string_lossy().into_owned();
    let mut killed = BTreeSet::new();
    while !done.load(Ordering::Relaxed) && killed.len() < 5 {
        for pid in processes_with(&["plugin", "serve", &state]) {
            if killed.insert(pid) {
                spin(Duration::from_millis(40));
                signal_process(pid, Signal::KILL);
            }
        }
    }
    killed.len()
}

#[test]
fn a_killed_plugin_is_restarted() {
    let data = tempfile::tempdir().unwrap();
    let agent = AgentProcess::start(data.path());
    let state = data.path().to_string_lossy().into_owned();
    let before = processes_with(&["plugin", "serve", &state]);
    signal_process(before[0], Signal::KILL);
    until("another plugin to be healthy", || {
        is_healthy(&agent.address)?;
        let after = processes_with(&["plugin", "serve", &state]);
        let is_new = after.len() == 1 && after != before;
        if is_new { Ok(()) } else { Err(format!("{after:?}")) }
    });
    create(&agent.address, "db").unwrap().json();
}

/// A plugin's process may survive a killed agent. The next agent ends it before it starts another one,
/// and continues its allocation.
#[test]
fn a_plugin_process_that_outlives_the_agent_is_ended() {
    let data = tempfile::tempdir().unwrap();
    let state = data.path().to_string_lossy().into_owned();
    let plugins = || processes_with(&["plugin", "serve", &state]);
    let agent = AgentProcess::start(data.path());
    until("the plugin to be healthy", || is_healthy(&agent.address));
    let survivor = plugins();
    let before = controllers(&agent.address);
    // With another writer, the plugin does not read the end of its input.
    let input = format!("/proc/{}/fd/0", survivor[0]);
    let _writer = std::fs::File::options().write(true).open(input).unwrap();
    agent.kill();
    assert_eq!(plugins(), survivor);

    let agent = AgentProcess::start(data.path());
    until("another plugin to be healthy", || is_healthy(&agent.address));
    let next = plugins();
    assert_eq!(next.len(), 1);
    assert_ne!(next, survivor);
    assert_eq!(controllers(&agent.address), before);
    create(&agent.address, "db").unwrap().json();
}

/// Returns node and allocation of each controller of the plugin.
fn controllers(agent: &Address) -> Vec<(String, String)> {
    let answer = agent.ask("GET", "/v1/plugin/csi/hostpath", None);
    let plugin = answer.unwrap().json();
    let controllers = plugin["Controllers"].as_object().unwrap().iter();
    let alloc = |instance: &serde_json::Value| instance["AllocID"].as_str().unwrap().to_owned();
    controllers.map(|(node, instance)| (node.clone(), alloc(instance))).collect()
}
