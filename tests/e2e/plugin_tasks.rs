//! A plugin that is the task of a job: a real agent supervises it, and other jobs use its volumes.

use std::path::{Path, PathBuf};
use std::process::Command;

use nomad_csi_model::segment;
use serde_json::{Value, json};

use crate::agent_process::{AgentProcess, PROGRAM, kill_tasks, processes_with, signal_process};
use crate::http::Address;
use crate::wait::until;
use nomad_csi_testing::namespace::{mounts, run_in_mount_namespace};

const PLUGIN: &str = "other";
/// A directory of the host's programs, which every task of `exec` sees.
const PROGRAMS: &str = "/usr/local/bin";

fn ask(agent: &Address, method: &str, path: &str, body: Option<&Value>) -> Value {
    let answer = agent.ask(method, path, body).unwrap();
    assert_eq!(answer.status, 200, "{method} {path}: {}", answer.text());
    answer.json()
}

fn run_job(agent: &Address, job: &Value) {
    ask(agent, "PUT", "/v1/jobs", Some(&json!({ "Job": job })));
}

fn stop_job(agent: &Address, id: &str) {
    ask(agent, "DELETE", &format!("/v1/job/{id}"), None);
}

/// A system job whose task runs the embedded plugin as any other plugin.
fn plugin_job(id: &str, state: &Path) -> Value {
    let arguments = ["plugin", "serve", "--endpoint", "${CSI_ENDPOINT}", "--state-dir"];
    let arguments = arguments.into_iter().chain([state.to_str().unwrap()]);
    json!({
        "ID": id,
        "Name": id,
        "Type": "system",
        "Datacenters": ["*"],
        "TaskGroups": [{
            "Name": "g",
            "RestartPolicy": {
                "Attempts": 5, "Interval": 3_600_000_000_000_u64, "Delay": 1_000_000, "Mode": "fail",
            },
            "Tasks": [{
                "Name": "plugin",
                "Driver": "exec",
                "Config": {"command": "nomad-csi", "args": arguments.collect::<Vec<_>>()},
                "CSIPluginConfig": {"ID": PLUGIN, "Type": "monolith"},
            }],
        }],
    })
}

/// A job that runs a script with the volume at `/data`.
fn script_job(id: &str, job_type: &str, script: &str) -> Value {
    json!({
        "ID": id,
        "Name": id,
        "Type": job_type,
        "Datacenters": ["*"],
        "TaskGroups": [{
            "Name": "g",
            "Count": 1,
            "Volumes": {"data": {
                "Name": "data",
                "Type": "csi",
                "Source": "db",
                "AccessMode": "single-node-writer",
                "AttachmentMode": "file-system",
            }},
            "Tasks": [{
                "Name": "script",
                "Driver": "exec",
                "Config": {"command": "sh", "args": ["-c", script]},
                "VolumeMounts": [{"Volume": "data", "Destination": "/data"}],
            }],
        }],
    })
}

fn create_volume(agent: &Address) {
    let volume = json!({
        "ID": "db",
        "Name": "db",
        "PluginID": PLUGIN,
        "RequestedCapabilities": [
            {"AccessMode": "single-node-writer", "AttachmentMode": "file-system"}
        ],
    });
    let body = json!({ "Volumes": [volume] });
    ask(agent, "PUT", "/v1/volume/csi/db/create", Some(&body));
}

/// Waits until the only allocation of the job has this status.
fn wait_for_job(agent: &Address, id: &str, status: &str) {
    until(&format!("job {id} to be {status}"), || {
        let allocs = ask(agent, "GET", &format!("/v1/job/{id}/allocations"), None);
        let is_meant = allocs[0]["ClientStatus"] == status;
        is_meant.then_some(()).ok_or_else(|| format!("{allocs:#}"))
    });
}

/// Waits until this many instances of the plugin are healthy, and it has no other.
fn wait_for_plugin(agent: &Address, healthy: u64) {
    until(&format!("{healthy} healthy instances"), || {
        let answer = agent.ask("GET", &format!("/v1/plugin/csi/{PLUGIN}"), None);
        let answer = answer.map_err(|error| error.to_string())?;
        let is_meant = match answer.status {
            404 => healthy == 0,
            _ => {
                let plugin = answer.json();
                plugin["ControllersHealthy"] == healthy && plugin["NodesHealthy"] == healthy
            }
        };
        is_meant.then_some(()).ok_or_else(|| answer.text())
    });
}

fn wait_for_release(agent: &Address) {
    until("the volume to be free", || {
        let volume = ask(agent, "GET", "/v1/volume/csi/db", None);
        let is_free = volume["WriteAllocs"].as_object().is_none_or(serde_json::Map::is_empty);
        is_free.then_some(()).ok_or_else(|| format!("{volume:#}"))
    });
}

fn mount(arguments: &[&str]) {
    let status = Command::new(arguments[0]).args(&arguments[1..]).status();
    assert!(status.unwrap().success(), "{arguments:?}");
}

/// The data directory of an agent. Dropping it kills what a failed test left.
struct Data(tempfile::TempDir);

impl Data {
    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        kill_tasks(self.path().to_str().unwrap());
    }
}

/// Returns a directory in the plugin's task whose name only this test has.
fn state_of(data: &Path) -> PathBuf {
    Path::new("/local").join(data.file_name().unwrap())
}

/// Runs the body with an agent on a new directory, and checks that it leaves no process and no mount.
fn run_with_agent(test: &str, body: impl FnOnce(AgentProcess, &Path) -> AgentProcess) {
    run_in_mount_namespace(test, || {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let before = mounts();
        let program = Path::new(PROGRAM).parent().unwrap();
        mount(&["mount", "--bind", program.to_str().unwrap(), PROGRAMS]);
        let data = Data(tempfile::tempdir().unwrap());
        let agent = body(AgentProcess::start(data.path()), data.path());
        assert!(agent.stop().success());
        let name = data.path().file_name().unwrap().to_str().unwrap();
        assert_eq!(processes_with(&[name]), [0; 0]);
        mount(&["umount", PROGRAMS]);
        assert_eq!(mounts(), before);
    });
}

/// Waits until the plugin has one process, which is not `earlier`. A child of it may show the same command line.
fn plugin_process(state: &Path, earlier: Option<u32>) -> u32 {
    let state = state.to_str().unwrap();
    until("the process of the plugin", || {
        let found = processes_with(&["plugin", "serve", "unix:///csi/csi.sock", state]);
        match found.as_slice() {
            [one] if Some(*one) != earlier => Ok(*one),
            _ => Err(format!("{found:?}, earlier {earlier:?}")),
        }
    })
}

#[test]
fn a_job_uses_a_volume_of_a_plugin_that_is_a_task() {
    run_with_agent(
        "plugin_tasks::a_job_uses_a_volume_of_a_plugin_that_is_a_task",
        |agent, data| {
            let address = &agent.address;
            run_job(address, &plugin_job("storage", &state_of(data)));
            wait_for_plugin(address, 1);
            create_volume(address);
            run_job(address, &script_job("writer", "batch", "echo written > /data/file"));
            wait_for_job(address, "writer", "complete");
            wait_for_release(address);
            let script = "test \"$(cat /data/file)\" = written";
            run_job(address, &script_job("reader", "batch", script));
            wait_for_job(address, "reader", "complete");
            wait_for_release(address);
            let volumes = data.join("mounts").join(segment(PLUGIN));
            let is_below = |mount: &String| Path::new(mount).starts_with(&volumes);
            let found: Vec<_> = mounts().into_iter().filter(is_below).collect();
            assert_eq!(found, [volumes.to_str().unwrap()], "no volume is mounted");
            stop_job(address, "storage");
            wait_for_job(address, "storage", "complete");
            wait_for_plugin(address, 0);
            agent
        },
    );
}

/// Rule 3: the plugin that an agent left running is another process when the next agent uses it.
#[test]
fn a_plugin_is_restarted_when_its_agent_was_killed_and_its_volumes_stay() {
    run_with_agent(
        "plugin_tasks::a_plugin_is_restarted_when_its_agent_was_killed_and_its_volumes_stay",
        |agent, data| {
            let state = state_of(data);
            run_job(&agent.address, &plugin_job("storage", &state));
            wait_for_plugin(&agent.address, 1);
            create_volume(&agent.address);
            let script = "echo 1 > /data/file; while [ ! -e /data/stop ]; do sleep 0.05; done";
            run_job(&agent.address, &script_job("user", "service", script));
            wait_for_job(&agent.address, "user", "running");
            let before = plugin_process(&state, None);
            agent.kill();

            let agent = AgentProcess::start(data);
            wait_for_plugin(&agent.address, 1);
            let after = plugin_process(&state, Some(before));
            wait_for_job(&agent.address, "user", "running");
            stop_job(&agent.address, "user");
            wait_for_job(&agent.address, "user", "complete");
            wait_for_release(&agent.address);

            // A process that dies is replaced, and the volume is there.
            signal_process(after, rustix::process::Signal::KILL);
            plugin_process(&state, Some(after));
            wait_for_plugin(&agent.address, 1);
            run_job(&agent.address, &script_job("reader", "batch", "test -e /data/file"));
            wait_for_job(&agent.address, "reader", "complete");
            wait_for_release(&agent.address);
            stop_job(&agent.address, "storage");
            wait_for_plugin(&agent.address, 0);
            wait_for_job(&agent.address, "storage", "complete");
            agent
        },
    );
}

/// A plugin on the host's file system, whose state outlives its allocation. Two processes exclude each other.
fn host_plugin_job(id: &str, state: &Path, version: &str) -> Value {
    let mut job = plugin_job(id, state);
    let group = &mut job["TaskGroups"][0];
    group["RestartPolicy"] = json!({
        "Attempts": 100, "Interval": 3_600_000_000_000_u64, "Delay": 50_000_000, "Mode": "fail",
    });
    let task = &mut group["Tasks"][0];
    task["Driver"] = json!("raw_exec");
    task["Config"]["command"] = json!(PROGRAM);
    task["Env"] = json!({ "VERSION": version });
    job
}

/// The allocations of the job, oldest first.
fn allocs_of(agent: &Address, id: &str) -> Vec<Value> {
    let answer = ask(agent, "GET", &format!("/v1/job/{id}/allocations"), None);
    let mut allocs = answer.as_array().unwrap().clone();
    allocs.sort_by_key(|alloc| alloc["CreateIndex"].as_u64());
    allocs
}

/// The job writes on, whatever happens to the plugin, and no mount changes.
#[test]
fn a_plugin_is_upgraded_under_a_writer() {
    run_with_agent("plugin_tasks::a_plugin_is_upgraded_under_a_writer", |agent, data| {
        let address = &agent.address;
        let state = data.join("plugin-state");
        run_job(address, &host_plugin_job("storage", &state, "1"));
        wait_for_plugin(address, 1);
        create_volume(address);
        let script = "i=0; while [ ! -e /data/stop ]; do i=$((i+1)); echo $i >> /data/lines || exit 1; \
                          sleep 0.01; done";
        run_job(address, &script_job("writer", "service", script));
        wait_for_job(address, "writer", "running");
        let mounted = mounts();
        for (count, version) in [(2, "2"), (3, "1")] {
            run_job(address, &host_plugin_job("storage", &state, version));
            until("the next allocation of the plugin to serve", || {
                let allocs = allocs_of(address, "storage");
                let statuses: Vec<_> = allocs.iter().map(|one| &one["ClientStatus"]).collect();
                let (last, earlier) = statuses.split_last().unwrap();
                let is_done = statuses.len() == count
                    && *last == "running"
                    && earlier.iter().all(|status| *status == "complete");
                is_done.then_some(()).ok_or_else(|| format!("{statuses:?}"))
            });
            wait_for_plugin(address, 1);
            assert_eq!(mounts(), mounted);
        }
        let writers = allocs_of(address, "writer");
        assert_eq!(writers.len(), 1);
        assert_eq!(writers[0]["ClientStatus"], "running");
        assert_eq!(writers[0]["TaskStates"]["script"]["Restarts"], 0);
        stop_job(address, "writer");
        wait_for_job(address, "writer", "complete");
        wait_for_release(address);
        // Every line is there once, in order.
        let script = "test -s /data/lines && seq $(wc -l < /data/lines) | cmp - /data/lines";
        run_job(address, &script_job("reader", "batch", script));
        wait_for_job(address, "reader", "complete");
        wait_for_release(address);
        stop_job(address, "storage");
        wait_for_plugin(address, 0);
        until("the plugin to end", || {
            let allocs = allocs_of(address, "storage");
            let has_ended = allocs.iter().all(|alloc| alloc["ClientStatus"] == "complete");
            has_ended.then_some(()).ok_or_else(|| format!("{allocs:#?}"))
        });
        agent
    });
}

/// An agent that stops in order leaves a plugin without a call, which the next one uses as it is. B66, W41: the plugin
/// stays on record in the meantime.
#[test]
fn an_orderly_restart_of_the_agent_restarts_no_plugin() {
    run_with_agent(
        "plugin_tasks::an_orderly_restart_of_the_agent_restarts_no_plugin",
        |agent, data| {
            let state = state_of(data);
            run_job(&agent.address, &plugin_job("storage", &state));
            wait_for_plugin(&agent.address, 1);
            create_volume(&agent.address);
            let script = "echo 1 > /data/file; while [ ! -e /data/stop ]; do sleep 0.05; done";
            run_job(&agent.address, &script_job("user", "service", script));
            wait_for_job(&agent.address, "user", "running");
            let before = plugin_process(&state, None);
            let mounted = mounts();
            assert!(agent.stop().success());

            let agent = AgentProcess::start(data);
            let address = &agent.address;
            let listed = ask(address, "GET", "/v1/plugins?type=csi", None).to_string();
            assert!(listed.contains(PLUGIN), "{listed}");
            wait_for_plugin(address, 1);
            assert_eq!(plugin_process(&state, None), before);
            assert_eq!(mounts(), mounted);
            stop_job(address, "user");
            wait_for_job(address, "user", "complete");
            wait_for_release(address);
            stop_job(address, "storage");
            wait_for_plugin(address, 0);
            wait_for_job(address, "storage", "complete");
            agent
        },
    );
}
