//! `kill -9` of the agent and of the plugin, while volumes are being made.
//!
//! What was answered is there afterwards; what was not is made by asking again; and the provider has
//! nothing that nobody knows of (W14).

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::agent_process::{AgentProcess, processes_with, signal_process};
use crate::volumes::{assert_exactly, create, is_healthy, list};
use crate::wait::{until, until_true};

const ROUNDS: usize = 12;
const CLIENTS: usize = 4;

/// Passes the time without giving the processor away: moments closer together than a sleep can hit.
fn spin(duration: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < duration {
        std::hint::spin_loop();
    }
}

/// W14: an answer that was given is kept, and a creation that was cut short is finished, not doubled.
#[test]
fn an_agent_killed_at_any_moment_of_a_create_loses_and_doubles_nothing() {
    let data = tempfile::tempdir().unwrap();
    let mut asked = BTreeSet::new();
    let mut answered = BTreeSet::new();
    for round in 0..ROUNDS {
        let agent = AgentProcess::start(data.path());
        let there: BTreeSet<String> = list(&agent.address).into_iter().map(|(id, _)| id).collect();
        assert!(
            answered.is_subset(&there),
            "lost: {:?}",
            answered.difference(&there)
        );
        let (more_asked, more_answered) = create_until_killed(agent, round);
        asked.extend(more_asked);
        answered.extend(more_answered);
    }
    assert!(asked.len() > answered.len(), "no create was ever cut short");
    let agent = AgentProcess::start(data.path());
    for id in &asked {
        create(&agent.address, id).unwrap().json();
    }
    assert_exactly(&agent.address, data.path(), &asked);
}

/// Four clients create; at a moment that differs by round the agent is killed. What was asked for,
/// and what was answered.
fn create_until_killed(agent: AgentProcess, round: usize) -> (BTreeSet<String>, BTreeSet<String>) {
    let (asked, answered) = (Mutex::new(BTreeSet::new()), Mutex::new(BTreeSet::new()));
    let answers = AtomicUsize::new(0);
    let address = agent.address.clone();
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (asked, answered, answers, address) = (&asked, &answered, &answers, &address);
            scope.spawn(move || {
                for number in 0.. {
                    let id = format!("v{round}-{client}-{number}");
                    asked.lock().unwrap().insert(id.clone());
                    let Ok(answer) = create(address, &id) else {
                        return;
                    };
                    assert_eq!(answer.status, 200, "{}", answer.text());
                    answered.lock().unwrap().insert(id);
                    answers.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        until_true("some volumes", || answers.load(Ordering::Relaxed) >= round);
        spin(Duration::from_micros(
            u64::try_from(round * 397 % 5000).unwrap(),
        ));
        agent.kill();
    });
    (asked.into_inner().unwrap(), answered.into_inner().unwrap())
}

/// The plugin dies again and again while clients create; every create is answered in the end, and
/// each volume exists once.
#[test]
fn a_plugin_killed_in_the_middle_of_creates_costs_no_volume() {
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
                            if answer.status == 200 {
                                Ok(())
                            } else {
                                Err(answer.text())
                            }
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
    assert_exactly(&agent.address, data.path(), &ids.into_inner().unwrap());
}

/// Kills the plugins that run on `data`, one after the other, five at most: the pauses before they are
/// started again grow. How many.
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
fn a_plugin_that_died_is_started_again() {
    let data = tempfile::tempdir().unwrap();
    let agent = AgentProcess::start(data.path());
    let state = data.path().to_string_lossy().into_owned();
    let before = processes_with(&["plugin", "serve", &state]);
    signal_process(before[0], Signal::KILL);
    until("another plugin to be healthy", || {
        is_healthy(&agent.address)?;
        let after = processes_with(&["plugin", "serve", &state]);
        let is_new = after.len() == 1 && after != before;
        if is_new {
            Ok(())
        } else {
            Err(format!("{after:?}"))
        }
    });
    create(&agent.address, "db").unwrap().json();
}
