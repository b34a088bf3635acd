//! Remedies that several rules offer, with their commands.

use super::facts::VolumeFacts;
use super::finding::{Remedy, SafeFix};
use crate::model::{AllocId, NodeId, NodeSight, Plugin, Volume, one_line, shell_quoted};
use crate::plan::{CUTS_OFF, ClaimDrops, DetachRule};

/// Returns a remedy with a command for a person.
pub(super) fn run(action: impl Into<String>, command: String) -> Remedy {
    Remedy {
        action: action.into(),
        command: Some(command),
        fix: None,
    }
}

/// Returns a remedy outside of this program.
pub(super) fn act(action: impl Into<String>) -> Remedy {
    Remedy {
        action: action.into(),
        command: None,
        fix: None,
    }
}

fn volume_command(volume: &Volume, words: &str) -> String {
    let id = shell_quoted(volume.id.as_str());
    let namespace = shell_quoted(volume.namespace.as_str());
    let (verb, rest) = words.split_once(' ').unwrap_or((words, ""));
    let rest = if rest.is_empty() {
        String::new()
    } else {
        format!(" {rest}")
    };
    format!("nomad-csi volume {verb} {id}{rest} --namespace {namespace}")
}

/// What makes the server release a claim whose allocation has ended. `is_safe` if no allocation uses the volume on
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
        DetachRule::NeverWorks | DetachRule::Unknown => collector(facts),
    }
}

/// Nomad's collector releases claims. At once it also removes nodes that are down, so that is offered only if
/// none is: a claim on such a node would be dropped while tasks write there.
pub(super) fn collector(facts: &VolumeFacts<'_>) -> Vec<Remedy> {
    let wait = Remedy {
        action: "wait for Nomad's collector, which tries the release every 5 minutes".to_owned(),
        ..run(
            "",
            volume_command(facts.volume, "wait --for unclaimed --timeout 15m"),
        )
    };
    let now = facts.all_nodes_are_up().then(|| {
        run(
            "or run the collector now, with a management token; it also removes ended jobs and allocations from the server",
            "nomad system gc".to_owned(),
        )
    });
    std::iter::once(wait).chain(now).collect()
}

/// Drops the claims from the server's record, and keeps the data. `None` if that would be refused, because an
/// allocation may still write.
pub(super) fn deregister_by_force(facts: &VolumeFacts<'_>) -> Option<Remedy> {
    let mut drops = ClaimDrops {
        nodes: facts.nodes.clone(),
        ..ClaimDrops::default()
    };
    let unapproved = drops.unapproved(facts.volume);
    let approved = unapproved.iter().map(|claim| claim.id.clone());
    drops.cut_off = approved.collect();
    if !drops.problems(facts.volume).is_empty() {
        return None;
    }
    let approvals: String = drops
        .cut_off
        .iter()
        .map(|id| format!(" --approve {}", shell_quoted(format!("{CUTS_OFF}:{id}"))))
        .collect();
    let action = if approvals.is_empty() {
        "if no node has the volume mounted, drop its claims with its registration, then register it again; the data stays"
    } else {
        "if the machines of the allocations are off or cut off from the storage, drop the claims with the registration, then register the volume again; the data stays"
    };
    let words = format!("deregister --force{approvals}");
    Some(run(action, volume_command(facts.volume, &words)))
}

/// Waits until nothing claims the volume.
pub(super) fn wait_unclaimed(facts: &VolumeFacts<'_>) -> Remedy {
    run(
        "wait until the volume is unclaimed",
        volume_command(facts.volume, "wait --for unclaimed"),
    )
}

/// Looks at the claims.
pub(super) fn show_claims(facts: &VolumeFacts<'_>) -> Remedy {
    run(
        "watch the claims and their next attempts",
        volume_command(facts.volume, "claims"),
    )
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
    run(
        "check the plugin",
        format!("nomad-csi plugin status {plugin}"),
    )
}

/// Starts the plugin: names its job, if the server shows one.
pub(super) fn start_plugin(facts: &VolumeFacts<'_>, place: &str) -> Remedy {
    let plugin = &facts.volume.plugin_id;
    match facts.known_plugin().and_then(plugin_job) {
        Some(job) => run(
            format!(
                "start job `{}`, which runs plugin `{plugin}`{place}",
                one_line(job)
            ),
            format!("nomad job status {}", shell_quoted(job)),
        ),
        None => Remedy {
            action: format!(
                "start the job that runs plugin `{plugin}`{place}, then check the plugin"
            ),
            ..plugin_status(facts)
        },
    }
}

/// Returns the job that runs the node service of a plugin, or any of its jobs.
fn plugin_job(plugin: &Plugin) -> Option<&str> {
    let is_on_node = |id: &AllocId| plugin.nodes.values().any(|one| one.alloc_id == *id);
    let jobs = || {
        plugin
            .allocs
            .iter()
            .filter(|alloc| !alloc.job_id.is_empty())
    };
    let of_node = jobs().find(|alloc| is_on_node(&alloc.id));
    of_node
        .or_else(|| jobs().next())
        .map(|alloc| alloc.job_id.as_str())
}
