//! The embedded plugin as the task of a job that the agent submits itself.

use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::agent_process::{AgentProcess, processes_with, program, signal_process};
use crate::http::Address;
use crate::volumes::create;
use crate::wait::{until, until_true};

const JOB: &str = "nomad-csi-hostpath";

fn get(agent: &Address, path: &str) -> Value {
    let answer = agent.ask("GET", path, None).unwrap();
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

/// Returns the only allocation of the job, which runs.
fn alloc(agent: &Address) -> Value {
    let allocs = get(agent, &format!("/v1/job/{JOB}/allocations"));
    let running = allocs.as_array().unwrap().iter();
    let mut running = running.filter(|alloc| alloc["ClientStatus"] == "running");
    let one = running.next().unwrap_or_else(|| panic!("{allocs:#}"));
    assert!(running.next().is_none(), "{allocs:#}");
    one.clone()
}

/// Waits until the plugin is healthy, and returns the allocations of its instances.
fn instances(agent: &Address) -> Vec<String> {
    until("the plugin to be healthy", || {
        let answer = agent.ask("GET", "/v1/plugin/csi/hostpath", None);
        let answer = answer.map_err(|error| error.to_string())?;
        let is_healthy = answer.status == 200 && answer.json()["ControllersHealthy"] == 1;
        let plugin = is_healthy.then(|| answer.json());
        let plugin = plugin.ok_or_else(|| answer.text())?;
        let nodes = plugin["Nodes"].as_object().unwrap().values();
        let ids = nodes.map(|node| node["AllocID"].as_str().unwrap().to_owned());
        Ok(ids.collect())
    })
}

fn plugins(data: &Path) -> Vec<u32> {
    processes_with(&["plugin", "serve", data.to_str().unwrap()])
}

fn embedded(data: &Path, words: &[&str]) -> Command {
    let mut command = program(words);
    command.arg(format!("--embedded={}", data.display()));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Returns whether the agent runs its plugin as a task.
fn runs_tasks() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("skipped: an agent that is not root starts its plugin without a job");
    }
    is_root
}

#[test]
fn the_plugin_is_the_task_of_a_job_and_ends_with_the_agent() {
    if !runs_tasks() {
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let agent = AgentProcess::start(data.path());
    let first = alloc(&agent.address);
    assert_eq!(first["JobType"], "system");
    assert_eq!(instances(&agent.address), [first["ID"].as_str().unwrap()]);
    create(&agent.address, "db").unwrap().json();
    assert!(agent.stop().success());
    let directory = data.path().to_str().unwrap();
    assert_eq!(processes_with(&[directory]), [0; 0]);

    let agent = AgentProcess::start(data.path());
    let again = alloc(&agent.address);
    assert_eq!(again["ID"], first["ID"]);
    let task = &again["TaskStates"]["plugin"];
    assert_eq!(task["Restarts"], 0, "{task:#}");
    let events = task["Events"].as_array().unwrap().iter();
    let reasons: Vec<_> = events.map(|event| &event["DisplayMessage"]).collect();
    let reason = "The agent was restarted, and starts its plugin again";
    assert!(reasons.iter().any(|text| **text == reason), "{reasons:#?}");
    assert!(agent.stop().success());
}

/// A process of the plugin never runs beside another one.
#[test]
fn a_command_ends_the_plugin_that_a_killed_agent_left() {
    if !runs_tasks() {
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let agent = AgentProcess::start(data.path());
    let first = alloc(&agent.address);
    agent.kill();
    let left = plugins(data.path());
    assert_eq!(left.len(), 1);
    let shown = embedded(data.path(), &["volume", "status"]).status();
    assert!(shown.unwrap().success());
    assert_eq!(plugins(data.path()), [0; 0]);

    let agent = AgentProcess::start(data.path());
    let again = alloc(&agent.address);
    assert_eq!(again["ID"], first["ID"]);
    assert_eq!(again["TaskStates"]["plugin"]["Restarts"], 0);
    assert_eq!(instances(&agent.address), [first["ID"].as_str().unwrap()]);
    assert!(agent.stop().success());
}

/// Also of an agent that knew no job: its plugin was on record in the same way.
#[test]
fn the_plugin_of_a_killed_command_is_forgotten() {
    if !runs_tasks() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let data = base.path().join("data");
    let mut command = embedded(&data, &["volume", "wait", "db", "--for", "schedulable"]);
    let mut command = command.spawn().unwrap();
    until_true("the plugin to run", || plugins(&data).len() == 1);
    let journal = data.join("plugins/hostpath/catalog.redb");
    until_true("the plugin to be used", || journal.exists());
    signal_process(command.id(), Signal::KILL);
    command.wait().unwrap();

    let agent = AgentProcess::start(&data);
    assert_eq!(instances(&agent.address), [alloc(&agent.address)["ID"].as_str().unwrap()]);
    assert!(agent.stop().success());
}

#[test]
fn other_arguments_replace_the_plugin() {
    if !runs_tasks() {
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let agent = AgentProcess::start(data.path());
    let first = alloc(&agent.address);
    agent.kill();

    let mut command = program(["agent", "--dev", "--http", "127.0.0.1:0"]);
    command.arg("--plugin-attach");
    command.arg("--data-dir").arg(data.path());
    let agent = AgentProcess::run(command);
    let next = until("the next version", || {
        let next = alloc(&agent.address);
        let is_next = next["ID"] != first["ID"];
        is_next.then(|| next.clone()).ok_or(format!("{next:#}"))
    });
    assert_eq!(next["JobVersion"], 1);
    assert_eq!(instances(&agent.address), [next["ID"].as_str().unwrap()]);
    assert_eq!(plugins(data.path()).len(), 1);
    assert!(agent.stop().success());
}

#[test]
fn a_stopped_job_runs_again_when_the_agent_starts() {
    if !runs_tasks() {
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let agent = AgentProcess::start(data.path());
    let stopped = agent.address.ask("DELETE", &format!("/v1/job/{JOB}"), None).unwrap();
    assert_eq!(stopped.status, 200);
    until("the plugin to be gone", || {
        let answer = agent.address.ask("GET", "/v1/plugin/csi/hostpath", None);
        let answer = answer.map_err(|error| error.to_string())?;
        (answer.status == 404).then_some(()).ok_or(answer.text())
    });
    assert_eq!(plugins(data.path()), [0; 0]);
    assert!(agent.stop().success());

    let agent = AgentProcess::start(data.path());
    assert_eq!(instances(&agent.address).len(), 1);
    create(&agent.address, "db").unwrap().json();
    assert!(agent.stop().success());
}
