//! Remedies that several rules offer, with their commands.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::VolumeFacts;
use super::finding::{Remedy, SafeFix};
use crate::{CUTS_OFF, ClaimDrops, DetachRule};
use nomad_csi_model::{
    Alloc, AllocId, NodeId, NodeSight, Plugin, PluginInstance, Volume, one_line, shell_quoted,
};

/// Returns a remedy with a command for a person.
pub(super) fn run(action: impl Into<String>, command: String) -> Remedy {
    Remedy { action: action.into(), command: Some(command), fix: None }
}

/// Returns a remedy outside of this program.
pub(super) fn act(action: impl Into<String>) -> Remedy {
    Remedy { action: action.into(), command: None, fix: None }
}

fn volume_command(volume: &Volume, words: &str) -> String {
    let id = shell_quoted(volume.id.as_str());
    let namespace = shell_quoted(volume.namespace.as_str());
    let (verb, rest) = words.split_once(' ').unwrap_or((words, ""));
    let rest = if rest.is_empty() { String::new() } else { format!(" {rest}") };
    format!("nomad-csi volume {verb} {id}{rest} --namespace {namespace}")
}

/// Returns what makes the server release a claim whose allocation has ended. `is_safe` if no allocation uses the volume on
/// the node. Only what works on this server is offered.
pub(super) fn release_again(facts: &VolumeFacts<'_>, node: &NodeId, is_safe: bool) -> Vec<Remedy> {
    match facts.detach {
        DetachRule::Releases
            if !matches!(facts.nodes.sight(node), NodeSight::Up | NodeSight::Unread) =>
        {
            vec![]
        }
        DetachRule::Releases => {
            let words = format!("detach {}", shell_quoted(node.as_str()));
            vec![Remedy {
                action: "try the release again now".to_owned(),
                command: Some(volume_command(facts.volume, &words)),
                fix: (is_safe && facts.nodes.sight(node) == NodeSight::Up)
                    .then(|| SafeFix::Detach(node.clone())),
            }]
        }
        DetachRule::NeverWorks | DetachRule::Unknown => vec![wait_for_server(facts)],
    }
}

/// Nomad repeats a release by itself. Its collector (`nomad system gc`) is never offered: it releases nothing that fails,
/// and removes the records of allocations, so that no one can tell any more what still writes, and the clients stop
/// unmounting (measured on 2.0.6).
pub(super) fn wait_for_server(facts: &VolumeFacts<'_>) -> Remedy {
    Remedy {
        action: "wait: Nomad repeats the release by itself; if nothing moves, look at the logs of the plugin's allocations, and restart the one on that node".to_owned(),
        ..run(
            "",
            volume_command(facts.volume, "wait --for unclaimed --timeout 15m"),
        )
    }
}

/// Stops the jobs that wait for the volume: the server gives it to them as soon as it drops a claim, which it does with any
/// change of any volume.
pub(super) fn stop_waiting_jobs(facts: &VolumeFacts<'_>) -> Vec<Remedy> {
    let waiting = facts.evaluations.iter().filter(|evaluation| {
        let mut reasons = evaluation.reasons.iter();
        reasons.any(|reason| names_volume(reason, facts.volume.id.as_str()))
    });
    let jobs: BTreeSet<&str> = waiting.map(|one| one.job_id.as_str()).collect();
    if jobs.is_empty() {
        let text =
            "stop the jobs that wait for the volume: Nomad may give it to them at any moment";
        return vec![act(text)];
    }
    let stop = |job: &&str| {
        stop_job(facts, job, "which waits for the volume and may get it at any moment")
    };
    jobs.iter().map(stop).collect()
}

/// Stops a job, for this reason.
pub(super) fn stop_job(facts: &VolumeFacts<'_>, job: &str, why: &str) -> Remedy {
    let namespace = shell_quoted(facts.volume.namespace.as_str());
    let id = shell_quoted(job);
    let command = match on_agent(facts) {
        true => format!("nomad-csi job stop {id} --namespace {namespace}"),
        false => format!("nomad job stop -namespace {namespace} {id}"),
    };
    run(format!("stop job `{}`, {why}", one_line(job)), command)
}

/// Returns whether the server is the agent, which shows its claims.
pub(super) fn on_agent(facts: &VolumeFacts<'_>) -> bool {
    facts.claims.is_some()
}

/// Returns whether the scheduler's reason is about the volume: `CSI volume ID …`, or another reason of the agent with
/// that after its first colon.
pub(super) fn names_volume(reason: &str, id: &str) -> bool {
    const NAMED: &str = "CSI volume ";
    let after_colon = || reason.split_once(": ")?.1.strip_prefix(NAMED);
    let rest = reason.strip_prefix(NAMED).or_else(after_colon);
    let rest = rest.and_then(|rest| rest.strip_prefix(id));
    rest.is_some_and(|rest| rest.starts_with([' ', ':']))
}

/// Drops the claims from the server's record, and keeps the data. `None` if that would be refused, because an
/// allocation may still write. The registration has what only a specification can give back, so that is written first.
pub(super) fn deregister_by_force(facts: &VolumeFacts<'_>) -> Vec<Remedy> {
    let mut drops = ClaimDrops { nodes: facts.nodes.clone(), ..ClaimDrops::default() };
    let unapproved = drops.unapproved(facts.volume);
    let approved = unapproved.iter().map(|claim| claim.id.clone());
    drops.cut_off = approved.collect();
    if !drops.problems(facts.volume).is_empty() {
        return vec![];
    }
    let approvals: String = drops
        .cut_off
        .iter()
        .map(|id| format!(" --approve {}", shell_quoted(format!("{CUTS_OFF}:{id}"))))
        .collect();
    let action = if approvals.is_empty() {
        "if no node has the volume mounted, drop its claims with its registration"
    } else {
        "if the machines of the allocations are off or cut off from the storage, drop the claims with the registration"
    };
    let file = specification_file(facts.volume);
    let again = format!("nomad-csi volume register {}", shell_quoted(&file));
    let action = format!(
        "{action}, then register the volume again from that file with `{again}`; the data stays"
    );
    let words = format!("deregister --force{approvals}");
    vec![write_specification(facts.volume), run(action, volume_command(facts.volume, &words))]
}

/// Returns the name of a file for the specification of this volume alone.
fn specification_file(volume: &Volume) -> String {
    format!("{}-{}.hcl", volume.namespace, volume.id)
}

/// Writes the specification of a volume before its registration is removed. A server hides secrets, and a registration
/// needs them.
fn write_specification(volume: &Volume) -> Remedy {
    let id = shell_quoted(volume.id.as_str());
    let namespace = shell_quoted(volume.namespace.as_str());
    let file = specification_file(volume);
    let file = shell_quoted(&file);
    run(
        "before the next remedy, write the specification of the volume, and replace each `unknown` in it by the value, or remove the line if there is none",
        format!("nomad-csi import {id} --out {file} --namespace {namespace}"),
    )
}

/// Waits until nothing claims the volume.
pub(super) fn wait_unclaimed(facts: &VolumeFacts<'_>) -> Remedy {
    run("wait until the volume is unclaimed", volume_command(facts.volume, "wait --for unclaimed"))
}

/// Waits until an allocation that uses the volume can be placed.
pub(super) fn wait_schedulable(facts: &VolumeFacts<'_>) -> Remedy {
    run(
        "wait until the volume is schedulable",
        volume_command(facts.volume, "wait --for schedulable"),
    )
}

/// Looks at the claims.
pub(super) fn show_claims(facts: &VolumeFacts<'_>) -> Remedy {
    run("watch the claims and their next attempts", volume_command(facts.volume, "claims"))
}

/// Gives the volume back.
pub(super) fn release(facts: &VolumeFacts<'_>, alloc: &AllocId) -> Remedy {
    let words = format!("release --alloc {}", shell_quoted(alloc.as_str()));
    run(
        "if the allocation does not need the volume any more, give it back",
        volume_command(facts.volume, &words),
    )
}

/// Looks at the plugin.
pub(super) fn plugin_status(facts: &VolumeFacts<'_>) -> Remedy {
    let plugin = shell_quoted(facts.volume.plugin_id.as_str());
    run("check the plugin", format!("nomad-csi plugin status {plugin}"))
}

/// Which service of a plugin is away.
#[derive(Clone, Copy, Debug)]
pub(super) enum Service<'n> {
    /// The controller.
    Controller,
    /// The node service on one node.
    Node(&'n NodeId),
    /// The node service on every node.
    Nodes,
    /// All of them.
    All,
}

/// Starts a service of the plugin: names the job that has run it, if the server shows one.
pub(super) fn start_plugin(facts: &VolumeFacts<'_>, service: Service<'_>) -> Remedy {
    let plugin = &facts.volume.plugin_id;
    let what = match service {
        Service::Controller => format!("the controller of plugin `{plugin}`"),
        Service::Node(node) => {
            format!("plugin `{plugin}` on node `{}`", facts.node_name(node))
        }
        Service::Nodes => format!("plugin `{plugin}` on the nodes"),
        Service::All => format!("plugin `{plugin}`"),
    };
    let job = facts.known_plugin().and_then(|known| job_of(known, service));
    match job {
        Some(job) => run(
            format!("start job `{}` again, which runs {what}", one_line(job)),
            match on_agent(facts) {
                true => format!("nomad-csi job status {}", shell_quoted(job)),
                false => format!("nomad job status {}", shell_quoted(job)),
            },
        ),
        // The agent also uses plugins that something else runs.
        None if on_agent(facts) => Remedy {
            action: format!(
                "start the job that runs {what}, or the service behind its `--plugin-endpoint`, then check the plugin"
            ),
            ..plugin_status(facts)
        },
        None => Remedy {
            action: format!("start the job that runs {what}, then check the plugin"),
            ..plugin_status(facts)
        },
    }
}

fn alloc_ids(instances: &BTreeMap<NodeId, PluginInstance>) -> BTreeSet<&AllocId> {
    instances.values().map(|one| &one.alloc_id).collect()
}

/// Returns the job whose allocation is or was this service; another job of the plugin does not help. A server forgets an
/// instance that is gone, and still lists its allocation: so a job that runs only the other service is not meant, and one
/// that is left is.
fn job_of<'p>(plugin: &'p Plugin, service: Service<'_>) -> Option<&'p str> {
    let controllers = alloc_ids(&plugin.controllers);
    let nodes = alloc_ids(&plugin.nodes);
    let is_meant = |alloc: &&Alloc| match service {
        Service::Controller => controllers.contains(&alloc.id),
        Service::Node(node) => alloc.node_id == *node && nodes.contains(&alloc.id),
        Service::Nodes => nodes.contains(&alloc.id),
        Service::All => true,
    };
    let named = || plugin.allocs.iter().filter(|alloc| !alloc.job_id.is_empty());
    let jobs_of = |instances: &BTreeSet<&AllocId>| -> BTreeSet<&str> {
        let running = named().filter(|alloc| instances.contains(&alloc.id));
        running.map(|alloc| alloc.job_id.as_str()).collect()
    };
    let others = match service {
        Service::Controller => Some(jobs_of(&nodes)),
        Service::Nodes => Some(jobs_of(&controllers)),
        Service::Node(_) | Service::All => None,
    };
    let is_left = |alloc: &&Alloc| {
        others.as_ref().is_some_and(|others| !others.contains(alloc.job_id.as_str()))
    };
    let meant = named().find(is_meant).or_else(|| named().find(is_left));
    meant.map(|alloc| alloc.job_id.as_str())
}
