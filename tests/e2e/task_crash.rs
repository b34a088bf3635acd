//! `kill -9` of agents, `launch`, shims and stages at random moments of start, run and stop of tasks.
//!
//! Whatever is killed: a task is started at most once, its recorded end is what happened, no process and no mount of
//! it is left, and every agent gets the same answer. The agents are processes of this test binary; one that is killed
//! is started again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nomad_csi_node::{DriverConfig, RunDriver as _, RunRequest};
use rustix::process::{Pid, Signal, kill_process};

use crate::agent_process::processes_with;
use crate::random::Random;
use crate::task_fixture::{exec, is_root, mount, raw_exec, request, shell, unique_seconds};
use crate::wait::{spin, until_true};
use nomad_csi_testing::namespace::mounts;

/// The run of an agent process: its directory and its script.
const RUN: &str = "NOMAD_CSI_TEST_RUN";
/// After how many microseconds the agent stops the task, if it does.
const STOP_AFTER: &str = "NOMAD_CSI_TEST_STOP_AFTER";
/// The name of the test that is an agent.
const AGENT: &str = "task_crash::agent_of_one_run";
/// Tasks at a time.
const LANES: u64 = 3;
/// How long a test waits for a process to kill.
const PATIENCE: Duration = Duration::from_millis(150);
/// The exit status of a task that was not disturbed.
const STATUS: i32 = 7;

/// An agent: starts the run, stops it perhaps, waits for its end and writes how it ended. A process of its own, which
/// the tests below kill.
#[test]
#[ignore = "the other tests of this file start it"]
fn agent_of_one_run() {
    let Some(run) = std::env::var_os(RUN).map(PathBuf::from) else {
        return;
    };
    let stop_after = std::env::var(STOP_AFTER).map(|text| text.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let plan = TaskPlan::read(&run);
        let driver = if plan.has_root { exec() } else { raw_exec() };
        let directory = run.join("run");
        let started = driver.start(&directory, plan.request(&run)).await;
        if let Err(error) = started {
            panic!("{error}");
        }
        if let Ok(micros) = stop_after {
            spin(Duration::from_micros(micros));
            driver.stop(&directory).await.unwrap();
        }
        let end = driver.wait(&directory).await.unwrap();
        let answer = run.join(format!("answer-{}", std::process::id()));
        std::fs::write(answer, end.to_string()).unwrap();
    });
}

/// A task: it marks its start and its end, and leaves two processes that nothing but the kernel finds.
struct TaskPlan {
    has_root: bool,
    seconds: String,
}

impl TaskPlan {
    fn write(&self, run: &Path) {
        let text = format!("{} {}", self.has_root, self.seconds);
        std::fs::create_dir_all(run.join("work")).unwrap();
        std::fs::write(run.join("plan"), text).unwrap();
    }

    fn read(run: &Path) -> Self {
        let text = std::fs::read_to_string(run.join("plan")).unwrap();
        let (has_root, seconds) = text.split_once(' ').unwrap();
        Self { has_root: has_root == "true", seconds: seconds.to_owned() }
    }

    fn request(&self, run: &Path) -> RunRequest {
        let work = run.join("work");
        let marks = if self.has_root { "/work".to_owned() } else { work.display().to_string() };
        let seconds = &self.seconds;
        let script = format!(
            "echo started >> {marks}/marks; setsid sleep {seconds} & (sleep {seconds} &) ; sleep 0.02; \
             echo ended >> {marks}/marks; exit {STATUS}"
        );
        if self.has_root {
            let config = DriverConfig::Exec(shell(&script));
            RunRequest { mounts: vec![mount(&work, "/work")], ..request(config) }
        } else {
            request(DriverConfig::RawExec(shell(&script)))
        }
    }
}

fn start_agent(run: &Path, stop_after: Option<u64>) -> Child {
    let mut agent = Command::new(std::env::current_exe().unwrap());
    agent
        .args(["--exact", AGENT, "--include-ignored", "--nocapture"])
        .env(RUN, run)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    if let Some(micros) = stop_after {
        agent.env(STOP_AFTER, micros.to_string());
    }
    agent.spawn().unwrap()
}

/// The actions of a test on one task.
#[derive(Debug, Default)]
struct Disturbance {
    stopped: bool,
    agents: u32,
    launches: u32,
    shims: u32,
    stages: u32,
}

impl Disturbance {
    fn kills(&self) -> u32 {
        self.agents + self.launches + self.shims + self.stages
    }
}

/// Runs one task under one or two agents and kills something several times. Panics if a rule is broken.
fn disturb_one(run: &Path, random: &mut Random) -> (Disturbance, String) {
    let plan = TaskPlan { has_root: random.below(2) == 0, seconds: unique_seconds() };
    plan.write(run);
    let stop_after = (random.below(3) == 0).then(|| random.below(30_000));
    let mut disturbance = Disturbance { stopped: stop_after.is_some(), ..Disturbance::default() };
    let number_of_agents = if random.below(10) < 3 { 2 } else { 1 };
    let mut agents: Vec<_> = (0..number_of_agents).map(|_| start_agent(run, stop_after)).collect();
    for _ in 0..random.below(4) {
        let moment = Duration::from_micros(random.below(60_000));
        match random.below(8) {
            0..3 => {
                spin(moment);
                let index = usize::try_from(random.below(number_of_agents)).unwrap();
                agents[index].kill().unwrap();
                agents[index].wait().unwrap();
                agents[index] = start_agent(run, stop_after);
                disturbance.agents += 1;
            }
            3 => disturbance.launches += kill_first(run, "launch"),
            4 => disturbance.shims += kill_first(run, "shim"),
            5 => disturbance.stages += kill_first(run, "stage"),
            6 => {
                spin(moment);
                disturbance.shims += kill_now(run, "shim");
            }
            _ => {
                spin(moment);
                disturbance.launches += kill_now(run, "launch");
            }
        }
    }
    for mut agent in agents {
        loop {
            let output = agent.wait_with_output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            if output.status.success() {
                break;
            }
            // An agent whose shims are killed three times in a row reports that, and tries again later.
            assert!(errors.contains("ended 3 times"), "{disturbance:?}: {errors}");
            agent = start_agent(run, stop_after);
        }
    }
    let answer = assert_rules(run, &plan, &disturbance);
    (disturbance, answer)
}

/// Kills the processes of the run in this role. Returns how many.
fn kill_now(run: &Path, role: &str) -> u32 {
    let found = processes_with(&["task-process", role, run.to_str().unwrap()]);
    let kill =
        |pid: u32| kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), Signal::KILL);
    let killed = found.into_iter().filter(|pid| kill(*pid).is_ok()).count();
    u32::try_from(killed).unwrap()
}

/// Waits for a process of the run in this role, which may live for a millisecond, and kills it.
fn kill_first(run: &Path, role: &str) -> u32 {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let killed = kill_now(run, role);
        if killed > 0 {
            return killed;
        }
    }
    0
}

/// Returns the answer of all agents.
fn assert_rules(run: &Path, plan: &TaskPlan, disturbance: &Disturbance) -> String {
    let marks = std::fs::read_to_string(run.join("work/marks")).unwrap_or_default();
    let answers = answers(run);
    let all = format!("{} {disturbance:?} {answers:?} {marks:?}", run.display());
    assert!(marks.matches("started").count() <= 1, "started twice: {all}");
    let Some((answer, others)) = answers.split_first() else {
        panic!("no answer: {all}");
    };
    assert!(others.iter().all(|other| other == answer), "they differ: {all}");
    let has_ended = marks.contains("ended");
    match answer.as_str() {
        "exited with status 7" => assert!(has_ended, "{all}"),
        "was killed by signal 15" => assert!(disturbance.stopped, "{all}"),
        "was stopped before it started" => {
            assert!(disturbance.stopped && marks.is_empty(), "{all}");
        }
        "was killed by signal 9" => assert!(disturbance.stages > 0, "{all}"),
        "was lost: its supervisor was killed, and the task with it" => {
            assert!(disturbance.shims > 0, "{all}");
        }
        _ => panic!("an unknown end: {all}"),
    }
    // The final state is known, so nothing of the task may exist.
    assert_eq!(processes_with(&[&plan.seconds]), [] as [u32; 0], "{all}");
    let path = run.to_str().unwrap();
    assert!(mounts().iter().all(|mount| !mount.starts_with(path)), "{all}");
    until_true("the shim to end", || processes_with(&["task-process", path]).is_empty());
    answer.clone()
}

fn answers(run: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(run).unwrap().map(Result::unwrap);
    let answers =
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("answer-"));
    answers.map(|entry| std::fs::read_to_string(entry.path()).unwrap()).collect()
}

fn disturb(tasks: u64, seed: u64) {
    if !is_root() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    let results: Vec<_> = thread::scope(|scope| {
        let call_locks: Vec<_> = (0..LANES)
            .map(|call_lock| {
                let base = base.path();
                scope.spawn(move || {
                    let mut random = Random(seed * LANES + call_lock);
                    let runs =
                        (0..tasks / LANES).map(|task| base.join(format!("{call_lock}-{task}")));
                    runs.map(|run| disturb_one(&run, &mut random)).collect::<Vec<_>>()
                })
            })
            .collect();
        call_locks.into_iter().flat_map(|call_lock| call_lock.join().unwrap()).collect()
    });
    let sum = |count: fn(&Disturbance) -> u32| -> u32 {
        results.iter().map(|(done, _)| count(done)).sum()
    };
    let mut ends = BTreeMap::new();
    for (_, end) in &results {
        *ends.entry(end).or_insert(0) += 1;
    }
    eprintln!(
        "{tasks} tasks in {:?}; killed: {} agents, {} launches, {} shims, {} stages; ends: {ends:#?}",
        begun.elapsed(),
        sum(|done| done.agents),
        sum(|done| done.launches),
        sum(|done| done.shims),
        sum(|done| done.stages),
    );
    let kills = u64::from(sum(Disturbance::kills));
    assert!(kills * 3 > tasks, "too few kills to prove anything");
}

#[test]
fn tasks_survive_kills_of_everything_around_them() {
    disturb(42, 1);
}

#[test]
#[ignore = "takes minutes; run it after a change of the shim"]
fn many_tasks_survive_kills_of_everything_around_them() {
    let seed = std::env::var("NOMAD_CSI_SEED").map_or(2, |seed| seed.parse().unwrap());
    disturb(300, seed);
}
