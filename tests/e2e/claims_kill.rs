//! `kill -9` of the agent, and of its plugin, at every kind of step, under load with real mounts, of which one vanishes
//! after every second kill, before the next process is there.
//!
//! A kill is aimed with the fault options of the embedded plugin. `RPC:delay` holds a call before its
//! work, and the plugin logs when it does. `RPC:lose-reply` lets a call do its work and keeps the answer
//! back; the agent logs the failure, and its record stays *Maybe* until it repeats the call. The journal
//! of the killed agent shows whether the call was under way, so each hit is counted and not assumed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nomad_csi_claims::claim::{Known, StartedCall};
use nomad_csi_claims::state::{State, replay, violations};
use nomad_csi_server::Journal as _;
use nomad_csi_server::store::EmbeddedJournal;
use rustix::process::Signal;

use crate::agent_process::{AgentProcess, processes_with, program, signal_process};
use crate::claims_load::{Load, Losses, MOUNTS};
use crate::hostpath_fixture::run_in_namespace_with_devices;
use crate::random::Random;
use crate::wait::{until, until_true};

const CLIENTS: u64 = 8;

const RPCS: [&str; 6] = [
    "ControllerPublishVolume",
    "NodeStageVolume",
    "NodePublishVolume",
    "NodeUnpublishVolume",
    "NodeUnstageVolume",
    "ControllerUnpublishVolume",
];

/// When a call is hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    /// It was sent, and the plugin has not begun its work.
    Before,
    /// About the time of its work.
    During,
    /// The work is done, and the answer has not arrived.
    After,
}

const MOMENTS: [Moment; 3] = [Moment::Before, Moment::During, Moment::After];

/// How long a call is held before its work that is hit during its work.
const SHORT: Duration = Duration::from_millis(25);

/// A kind of hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Aim {
    rpc: &'static str,
    moment: Moment,
}

/// One kill.
#[derive(Clone, Copy)]
struct Kill {
    aim: Aim,
    /// The mount that vanishes after it, one of [`MOUNTS`].
    loses: Option<&'static str>,
}

/// The process that is killed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Victim {
    Agent,
    Plugin,
}

impl Aim {
    fn all() -> Vec<Self> {
        let of = |rpc| MOMENTS.map(|moment| Self { rpc, moment });
        RPCS.into_iter().flat_map(of).collect()
    }

    /// A killed agent never sees the end of its faults, so they last: a slow machine does not let the
    /// call end before the kill. The next process of a killed plugin has them again, and the clients are
    /// to go on with it, so there they end.
    fn fault(self, victim: Victim) -> String {
        let fault = match (self.moment, victim) {
            (Moment::Before, Victim::Agent) => "delay=5s".to_owned(),
            (Moment::Before, Victim::Plugin) => "delay=400ms:3".to_owned(),
            (Moment::During, _) => format!("delay={}ms", SHORT.as_millis()),
            (Moment::After, Victim::Agent) => "lose-reply".to_owned(),
            (Moment::After, Victim::Plugin) => "lose-reply:1".to_owned(),
        };
        format!("{}:{fault}", self.rpc)
    }

    /// Waits until a log says that this many calls are where the aim wants them.
    fn wait(self, agent: &AgentProcess, calls: usize) {
        let says =
            |sign: &'static str| move |line: &str| line.contains(sign) && line.contains(self.rpc);
        match self.moment {
            Moment::Before | Moment::During => {
                agent.wait_for_plugin_lines(calls, says("injecting a fault"));
            }
            Moment::After => {
                agent.wait_for_lines(calls, says("a step of a claim failed and is repeated"));
            }
        }
    }

    /// How many calls get there before the kill.
    fn calls(self, random: &mut Random) -> usize {
        match self.moment {
            Moment::Before | Moment::During => random.pick(&[1, 2, 3]),
            Moment::After => 1,
        }
    }

    /// The time from the line of the log to the kill.
    fn pause(self, random: &mut Random) -> Duration {
        match self.moment {
            Moment::Before => Duration::from_millis(random.below(150)),
            Moment::During => SHORT + Duration::from_micros(random.below(6_000)) - JUST_BEFORE,
            Moment::After => Duration::from_millis(random.below(40)),
        }
    }
}

/// The line of the log arrives a little late.
const JUST_BEFORE: Duration = Duration::from_millis(2);

/// Waits busily, because a sleep is too coarse.
fn spin(duration: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < duration {
        std::hint::spin_loop();
    }
}

fn start(data: &Path, fault: Option<&str>) -> AgentProcess {
    let mut command = program(["agent", "--dev", "--http", "127.0.0.1:0", "--plugin-attach"]);
    command.arg("--data-dir").arg(data);
    if let Some(fault) = fault {
        command.args(["--plugin-fault", fault]);
    }
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    AgentProcess::run_with_its_log(command)
}

/// The RPCs of the calls that a state says were under way.
fn calls_under_way(state: &State) -> Vec<&'static str> {
    let mut found = vec![];
    for record in state.all_claims() {
        let mut add =
            |known: Known, call: Option<&StartedCall>, [setup, undo]: [&'static str; 2]| {
                if let (Known::Maybe, Some(call)) = (known, call) {
                    found.push(if call.is_setup { setup } else { undo });
                }
            };
        let [attach, stage, publish, unpublish, unstage, detach] = RPCS;
        for attachment in record.claims.attachments.values() {
            add(attachment.state, Some(&attachment.call), [attach, detach]);
        }
        for staging in record.claims.stagings.values() {
            add(staging.state, Some(&staging.call), [stage, unstage]);
        }
        for claim in record.claims.claims.values() {
            add(claim.published, claim.call.as_ref(), [publish, unpublish]);
        }
    }
    found
}

/// Reads the state of a killed agent from a copy of its journal, so that its next start repairs the
/// journal itself.
async fn state_of(data: &Path) -> State {
    let copy = tempfile::tempdir().unwrap();
    let path = copy.path().join("journal.redb");
    std::fs::copy(data.join("journal.redb"), &path).unwrap();
    let journal = EmbeddedJournal::open(path).await.unwrap();
    let held = journal.load().await.unwrap();
    let state = replay(held.snapshot, held.events).unwrap();
    journal.close().await.unwrap();
    state
}

/// The events of a run of kills.
#[derive(Debug, Default)]
struct Seen {
    /// The kills that met their call under way.
    hits: BTreeMap<Aim, usize>,
    /// The claims that were held at the kills.
    held: usize,
    /// The mounts that vanished after a kill, by their kind.
    lost: BTreeMap<&'static str, usize>,
    /// How often the next process found that a mount was gone.
    noticed: usize,
}

impl Seen {
    fn lose_mount(&mut self, kill: Kill, losses: &mut Losses<'_>, data: &Path) {
        if let Some(kind) = kill.loses
            && losses.lose_mount(data, kind)
        {
            *self.lost.entry(kind).or_default() += 1;
        }
    }

    /// Counts what an agent found gone.
    fn notice(&mut self, agent: &AgentProcess) {
        let says = |line: &&String| line.contains("a mount of a volume vanished");
        self.noticed += agent.log().iter().filter(says).count();
    }
}

/// An agent lives under load until a call is where the aim wants it. Returns whether that call was under
/// way at the kill.
async fn kill_agent(
    load: &mut Load,
    data: &Path,
    kill: Kill,
    random: &mut Random,
    seen: &mut Seen,
) -> bool {
    let aim = kill.aim;
    let agent = start(data, Some(&aim.fault(Victim::Agent)));
    let address = agent.address.clone();
    load.check(&address);
    let (calls, pause) = (aim.calls(random), aim.pause(random));
    load.run_while(&address, |_, losses| {
        aim.wait(&agent, calls);
        spin(pause);
        seen.notice(&agent);
        agent.kill();
        seen.lose_mount(kill, losses, data);
    });
    let state = state_of(data).await;
    assert_eq!(violations(&state), Vec::<String>::new(), "{aim:?}");
    calls_under_way(&state).contains(&aim.rpc)
}

/// The plugin of an agent is killed when a call is where the aim wants it, and the clients go on.
/// Returns whether the agent saw a call of that kind fail.
fn kill_plugin(
    load: &mut Load,
    data: &Path,
    kill: Kill,
    random: &mut Random,
    seen: &mut Seen,
) -> bool {
    let aim = kill.aim;
    let agent = start(data, Some(&aim.fault(Victim::Plugin)));
    load.check(&agent.address);
    let (calls, pause) = (aim.calls(random), aim.pause(random));
    let text = data.to_string_lossy().into_owned();
    let [plugin] = processes_with(&["plugin", "serve", &text])[..] else {
        panic!("there is no plugin, or several");
    };
    load.run_while(&agent.address, |requests, losses| {
        aim.wait(&agent, calls);
        spin(pause);
        signal_process(plugin, Signal::KILL);
        seen.lose_mount(kill, losses, data);
        until("another plugin", || crate::volumes::is_healthy(&agent.address));
        let before = requests.load(Ordering::Relaxed);
        until_true("the clients to go on", || requests.load(Ordering::Relaxed) > before + 2);
    });
    let has_failed = |line: &String| {
        line.contains("a step of a claim failed and is repeated") && line.contains(aim.rpc)
    };
    let hit = agent.log().iter().any(has_failed);
    load.check(&agent.address);
    seen.notice(&agent);
    assert!(agent.stop().success());
    hit
}

/// Kills one victim again and again, each aim in turn, and releases everything after each turn. Every
/// aim is hit at least so many times.
async fn kill(victim: Victim, kills: usize, least: impl Fn(Moment) -> usize) {
    let data = tempfile::tempdir().unwrap();
    let data = data.path().join("agent");
    let mut load = Load::new(CLIENTS);
    let mut random = Random(u64::try_from(kills).unwrap());
    let agent = start(&data, None);
    load.create_volumes(&agent.address);
    assert!(agent.stop().success());
    let mut seen = Seen::default();
    let aims = Aim::all();
    for at in 0..kills {
        let (round, place) = (at / aims.len(), at % aims.len());
        // Each aim loses a mount in every second round, and in turn one of each kind.
        let loses = (round + place) % 2 == 0;
        let kind = MOUNTS[(round / 2 + place / 2) % MOUNTS.len()];
        let kill = Kill { aim: aims[place], loses: loses.then_some(kind) };
        let is_hit = match victim {
            Victim::Agent => kill_agent(&mut load, &data, kill, &mut random, &mut seen).await,
            Victim::Plugin => kill_plugin(&mut load, &data, kill, &mut random, &mut seen),
        };
        *seen.hits.entry(kill.aim).or_default() += usize::from(is_hit);
        seen.held += load.held();
        if at % aims.len() == aims.len() - 1 || at == kills - 1 {
            let agent = start(&data, None);
            load.check(&agent.address);
            load.release_all(&agent.address, &data);
            seen.notice(&agent);
            assert!(agent.stop().success());
        }
    }
    report(kills, &seen);
    let Seen { hits, held, lost, noticed } = seen;
    assert!(held >= kills / 2, "hardly a claim was held");
    for (aim, hits) in hits {
        assert!(hits >= least(aim.moment), "{aim:?} was hit {hits} times");
    }
    for kind in MOUNTS {
        let lost = lost.get(kind).copied().unwrap_or(0);
        assert!(lost >= kills / 9, "{lost} mounts of {kind} vanished");
    }
    assert!(noticed >= kills / 9, "{noticed} losses were noticed");
    let agent = start(&data, None);
    load.delete_volumes(&agent.address);
    assert!(crate::volumes::provided(&agent.address).is_empty());
    assert!(agent.stop().success());
}

fn report(kills: usize, seen: &Seen) {
    eprintln!("{kills} kills, {} claims were held at them; hits:", seen.held);
    for (aim, hits) in &seen.hits {
        eprintln!("  {:26} {:?}: {hits}", aim.rpc, aim.moment);
    }
    eprintln!("mounts that vanished: {:?}; noticed: {}", seen.lost, seen.noticed);
}

/// Calls are held long enough before and after their work that each kill hits; the work itself is short.
fn once(moment: Moment) -> usize {
    usize::from(moment != Moment::During)
}

#[test]
fn an_agent_killed_at_every_step_loses_no_claim_and_grants_none_twice() {
    let test = "claims_kill::an_agent_killed_at_every_step_loses_no_claim_and_grants_none_twice";
    run_in_namespace_with_devices(test, kill(Victim::Agent, 18, once));
}

#[test]
fn a_plugin_killed_at_every_step_loses_no_claim() {
    let test = "claims_kill::a_plugin_killed_at_every_step_loses_no_claim";
    run_in_namespace_with_devices(test, kill(Victim::Plugin, 18, once));
}

#[test]
#[ignore = "takes minutes: cargo test --test e2e claims_kill -- --ignored --nocapture"]
fn an_agent_killed_200_times_loses_no_claim_and_grants_none_twice() {
    let test = "claims_kill::an_agent_killed_200_times_loses_no_claim_and_grants_none_twice";
    run_in_namespace_with_devices(test, kill(Victim::Agent, 200, |_| 5));
}

#[test]
#[ignore = "takes minutes: cargo test --test e2e claims_kill -- --ignored --nocapture"]
fn a_plugin_killed_200_times_loses_no_claim() {
    let test = "claims_kill::a_plugin_killed_200_times_loses_no_claim";
    run_in_namespace_with_devices(test, kill(Victim::Plugin, 200, |_| 5));
}
