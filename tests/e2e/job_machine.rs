//! A machine with an agent that runs jobs, on a directory of its own.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::agent_process::{AgentProcess, processes_with, program};
use crate::http::Address;
use crate::wait::until;
use nomad_csi_testing::namespace::mounts;

/// The access mode of a volume for one writer.
pub(crate) const WRITER: &str = "single-node-writer";

/// An agent on a directory of its own.
pub(crate) struct Machine {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) agent: Option<AgentProcess>,
    /// The name of the agent's data directory.
    data: &'static str,
}

impl Drop for Machine {
    /// Kills what a failed test left.
    fn drop(&mut self) {
        self.kill_processes();
    }
}

/// A block device has a size of its own.
fn size_of(attachment: &str) -> u64 {
    match attachment {
        "block-device" => 16 << 20,
        _ => 0,
    }
}

impl Machine {
    /// Kills the agent, its plugin, and the supervisors of tasks, with which the tasks end.
    pub(crate) fn kill_processes(&self) {
        let directory = self.directory.path().to_string_lossy().into_owned();
        for left in processes_with(&[&directory]) {
            if let Some(pid) = rustix::process::Pid::from_raw(left.try_into().unwrap_or(0)) {
                rustix::process::kill_process(pid, Signal::KILL).ok();
            }
        }
    }

    pub(crate) fn new() -> Self {
        Self::with_options([] as [&str; 0])
    }

    /// A machine whose agent has these options too.
    pub(crate) fn with_options(options: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        let mut machine = Self::without_agent();
        machine.start_with(options);
        machine
    }

    /// A machine whose agent was not started yet.
    pub(crate) fn without_agent() -> Self {
        Self::in_directory(tempfile::tempdir().unwrap())
    }

    /// The same, in this directory.
    pub(crate) fn in_directory(directory: tempfile::TempDir) -> Self {
        Self { directory, agent: None, data: "agent" }
    }

    /// A machine whose agent is two processes, which the test starts: a server, and a node with its data in `node`.
    pub(crate) fn of_cluster() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), agent: None, data: "node" }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.directory.path().join(self.data)
    }

    /// Renames the agent's data directory while no agent runs.
    pub(crate) fn rename_data(&mut self, name: &'static str) {
        let before = self.data();
        self.data = name;
        std::fs::rename(before, self.data()).unwrap();
    }

    pub(crate) fn agent(&self) -> &AgentProcess {
        self.agent.as_ref().unwrap()
    }

    pub(crate) fn address(&self) -> &Address {
        &self.agent().address
    }

    pub(crate) fn start(&mut self) {
        self.start_with([] as [&str; 0]);
    }

    pub(crate) fn start_with(&mut self, options: impl IntoIterator<Item = impl AsRef<OsStr>>) {
        let mut command = program(["agent", "--dev", "--http", "127.0.0.1:0", "--plugin-attach"]);
        command.arg("--data-dir").arg(self.data());
        command.args(options);
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let filter = "info,nomad_csi_server::claims=debug";
        command.env("NOMAD_CSI_LOG", filter);
        self.agent = Some(AgentProcess::run_with_its_log(command));
    }

    pub(crate) fn kill(&mut self) {
        self.agent.take().unwrap().kill();
    }

    pub(crate) fn put(&self, path: &str, body: &Value) -> Value {
        self.address().ask("PUT", path, Some(body)).unwrap().json()
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        self.address().ask("GET", path, None).unwrap().json()
    }

    pub(crate) fn create_volume(&self, id: &str, access: &str, attachment: &str) {
        let size = size_of(attachment);
        self.create_volume_of("hostpath", id, access, attachment, size);
    }

    pub(crate) fn create_sized_volume(&self, id: &str, access: &str, attachment: &str, size: u64) {
        self.create_volume_of("hostpath", id, access, attachment, size);
    }

    /// Creates a volume with this plugin.
    pub(crate) fn create_volume_with(
        &self,
        plugin: &str,
        id: &str,
        access: &str,
        attachment: &str,
    ) {
        self.create_volume_of(plugin, id, access, attachment, size_of(attachment));
    }

    fn create_volume_of(&self, plugin: &str, id: &str, access: &str, attachment: &str, size: u64) {
        // The agent serves requests after some seconds, healthy or not.
        until("the plugin to be listed", || {
            let path = format!("/v1/plugin/csi/{plugin}");
            let answer = self.address().ask("GET", &path, None).unwrap();
            let is_healthy = |text: &str| {
                let plugin: Value = serde_json::from_str(text).unwrap_or_default();
                plugin["NodesHealthy"].as_i64() > Some(0)
            };
            match answer.status == 200 && is_healthy(&answer.text()) {
                true => Ok(()),
                false => Err(answer.text()),
            }
        });
        let document = json!({
            "ID": id,
            "Name": id,
            "PluginID": plugin,
            "RequestedCapabilities": [{"AccessMode": access, "AttachmentMode": attachment}],
            "RequestedCapacityMin": size,
        });
        self.put(&format!("/v1/volume/csi/{id}/create"), &json!({ "Volumes": [document] }));
    }

    pub(crate) fn run(&self, job: &Value) {
        self.put("/v1/jobs", &json!({ "Job": job }));
    }

    pub(crate) fn stop(&self, id: &str) {
        let path = format!("/v1/job/{id}");
        self.address().ask("DELETE", &path, None).unwrap().json();
    }

    pub(crate) fn allocs(&self, job: &str) -> Vec<Value> {
        let allocs = self.get(&format!("/v1/job/{job}/allocations"));
        allocs.as_array().unwrap().clone()
    }

    /// Waits until as many allocations of the job have this status, and returns them.
    pub(crate) fn wait_for(&self, job: &str, status: &str, count: usize) -> Vec<Value> {
        until(&format!("{count} allocations of {job} to be {status}"), || {
            let all = self.allocs(job);
            let found: Vec<_> =
                all.iter().filter(|alloc| alloc["ClientStatus"] == status).cloned().collect();
            (found.len() == count).then_some(found).ok_or_else(|| format!("{all:#?}"))
        })
    }

    pub(crate) fn output(&self, alloc: &Value) -> String {
        let id = alloc["ID"].as_str().unwrap();
        let path = format!("/v1/client/fs/logs/{id}?task=t&type=stdout&plain=true");
        let answer = self.address().ask("GET", &path, None).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.text()
    }

    pub(crate) fn claims(&self) -> Vec<Value> {
        let claims = self.get("/v1/volumes/claims?type=csi&namespace=*");
        claims.as_array().unwrap().clone()
    }

    /// Nothing of any allocation is left.
    pub(crate) fn assert_clean(&self) {
        self.assert_no_claims();
        self.assert_nothing_mounted_below(&self.data());
    }

    /// No task runs, and nothing is mounted below a directory.
    pub(crate) fn assert_nothing_mounted_below(&self, directory: &Path) {
        let left: Vec<String> = mounts()
            .into_iter()
            .filter(|mounted| Path::new(mounted).starts_with(directory))
            .collect();
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(self.tasks(), Vec::<u32>::new());
    }

    /// Every claim is released.
    pub(crate) fn assert_no_claims(&self) {
        until("all claims to be gone", || match self.claims() {
            left if left.is_empty() => Ok(()),
            left => Err(format!("{left:#?}")),
        });
    }

    /// The processes of tasks of this test.
    pub(crate) fn tasks(&self) -> Vec<u32> {
        processes_with(&[&self.marker()])
    }

    /// A word on the command line of every task.
    pub(crate) fn marker(&self) -> String {
        let name = self.directory.path().file_name().unwrap();
        format!("task-of-{}", name.to_str().unwrap())
    }

    pub(crate) fn end(mut self) {
        self.assert_clean();
        let ended = self.agent.take().unwrap().stop();
        assert!(ended.success());
    }

    /// A job with one task, a shell script, and no volume.
    pub(crate) fn job_without_volume(&self, id: &str, kind: &str, script: &str) -> Value {
        let mut job = self.job(id, kind, &json!({}), script);
        let group = &mut job["TaskGroups"][0];
        group["Volumes"] = json!({});
        group["Tasks"][0]["VolumeMounts"] = json!([]);
        job
    }

    /// A job with one task, a shell script, and one volume at `/data`.
    pub(crate) fn job(&self, id: &str, kind: &str, volume: &Value, script: &str) -> Value {
        json!({
            "ID": id,
            "Name": id,
            "Type": kind,
            "TaskGroups": [{
                "Name": "g",
                "Count": volume["Count"].as_u64().unwrap_or(1),
                "RestartPolicy": {"Attempts": 0, "Mode": "fail"},
                "Volumes": {"v": volume},
                "Tasks": [{
                    "Name": "t",
                    "Driver": "exec",
                    "KillTimeout": 2_000_000_000_i64,
                    "Config": {"command": "/bin/sh", "args": ["-c", script, self.marker()]},
                    "VolumeMounts": [{"Volume": "v", "Destination": "/data"}],
                }],
            }],
        })
    }
}

pub(crate) fn volume(source: &str, access: &str) -> Value {
    json!({
        "Name": "v", "Type": "csi", "Source": source, "AccessMode": access,
        "AttachmentMode": "file-system",
    })
}
