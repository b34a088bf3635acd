//! Findings from the provider's list of volumes, and about the registrations of one volume of it. A list that could not be
//! read proves nothing.

use std::collections::BTreeSet;

use super::facts::VolumeFacts;
use super::finding::{Confidence, Evidence, FactSource, Finding, Rule};
use super::health_rules::{Reporter, condition};
use super::remedies::{act, run};
use crate::ProviderList;
use nomad_csi_model::{
    AccessMode, AllocId, ExternalNodeId, ExternalVolume, NamespacedId, NodeId, Volume, one_line,
    shell_quoted,
};

/// Returns what the provider's list says against the volume.
pub(super) fn provider_findings(facts: &VolumeFacts<'_>) -> Vec<Finding> {
    let ProviderList::Listed(volumes) = facts.provider else {
        return vec![];
    };
    let Some(listed) = volumes.get(&facts.volume.remote_id()) else {
        return vec![data_missing(facts)];
    };
    let mut findings = vec![];
    findings.extend(abnormal(listed));
    findings.extend(attached_elsewhere(facts, listed));
    findings
}

fn data_missing(facts: &VolumeFacts<'_>) -> Finding {
    let remote = one_line(facts.volume.remote_id().as_str());
    let plugin = shell_quoted(facts.volume.plugin_id.as_str());
    Finding {
        rule: Rule::DataMissing,
        verdict: "the provider does not have the volume's data any more".to_owned(),
        confidence: Confidence::Known,
        evidence: vec![Evidence::new(
            FactSource::Provider,
            format!("the provider does not list external ID `{remote}`"),
        )],
        remedies: vec![
            run(
                "look for the data under another external ID",
                format!("nomad-csi orphans --plugin {plugin}"),
            ),
            act("restore the data at the provider under the same external ID"),
        ],
    }
}

fn abnormal(listed: &ExternalVolume) -> Option<Finding> {
    let statuses = listed.statuses().unwrap_or_default();
    condition(&statuses.iter().collect::<Vec<_>>(), &Reporter::provider())
}

/// The provider has the volume attached to a node on which nothing claims it. Only a node whose ID at
/// the provider is known can be named.
fn attached_elsewhere(facts: &VolumeFacts<'_>, listed: &ExternalVolume) -> Option<Finding> {
    let plugin = facts.known_plugin()?;
    let mut claimed: BTreeSet<&NodeId> = claiming_nodes(facts)?;
    for other in facts.sharing.unwrap_or_default() {
        claimed.extend(nodes_of_claims(other)?);
    }
    let expected: BTreeSet<&ExternalNodeId> =
        claimed.iter().filter_map(|node| facts.external_node(node)).collect();
    // A claim on a node whose ID at the provider is unknown may explain any attachment.
    if expected.len() < claimed.len() {
        return None;
    }
    let others = listed.published_nodes.iter();
    let others: Vec<_> = others.filter(|node| !expected.contains(node)).collect();
    let first = others.first()?;
    let known = plugin.nodes.iter().find(|(_, instance)| {
        let info = instance.node.as_ref();
        info.is_some_and(|info| info.external_node_id == **first)
    });
    let name = known.map_or_else(
        || format!("`{}`", one_line(first.as_str())),
        |(node, _)| format!("`{}`", facts.node_name(node)),
    );
    let names: Vec<String> =
        others.iter().map(|node| format!("`{}`", one_line(node.as_str()))).collect();
    // The server releases claims, and there is none. Detaching under a writer loses what it writes.
    let writers = facts.unclaimed;
    let remedies = match writers {
        Some([]) if facts.sharing.is_none() => vec![act(
            "look for other registrations of this data, in all namespaces: detaching it under a writer loses data",
        )],
        Some([]) => vec![act(
            "check whether another cluster uses the volume, then detach it at the provider",
        )],
        Some(writers) => writers
            .iter()
            .map(|alloc| {
                act(format!(
                    "first end {} on node `{}`, which may still write; do not detach the volume before",
                    facts.alloc_name(&alloc.id),
                    facts.node_name(&alloc.node_id)
                ))
            })
            .collect(),
        None => vec![act(
            "look for allocations that use the volume, in this cluster and in others: detaching it under a writer loses data",
        )],
    };
    Some(Finding {
        rule: Rule::AttachedWithoutClaim,
        verdict: format!("the volume is attached to node {name}, on which nothing claims it"),
        confidence: Confidence::Inferred,
        evidence: vec![Evidence::new(
            FactSource::Provider,
            format!("the provider has it attached to {}", names.join(", ")),
        )],
        remedies,
    })
}

/// Returns the nodes with a claim; `None` if the node of a claim is unknown.
fn claiming_nodes<'a>(facts: &VolumeFacts<'a>) -> Option<BTreeSet<&'a NodeId>> {
    if let Some(claims) = facts.claims {
        return Some(claims.iter().map(|claim| &claim.node).collect());
    }
    nodes_of_claims(facts.volume)
}

fn nodes_of_claims(volume: &Volume) -> Option<BTreeSet<&NodeId>> {
    let node_of = |id: &AllocId| {
        let mut allocs = volume.allocs.iter();
        allocs.find(|alloc| alloc.id == *id).map(|alloc| &alloc.node_id)
    };
    volume.claiming_allocs().map(node_of).collect()
}

/// Another registration of the same data is written too, although the access mode of one of them is for one writer.
pub(super) fn written_twice(facts: &VolumeFacts<'_>) -> Option<Finding> {
    let is_for_one = |volume: &Volume| {
        volume.access_mode.is_some_and(|mode| {
            matches!(mode, AccessMode::SingleNodeWriter | AccessMode::MultiNodeSingleWriter)
        })
    };
    let own = facts.volume;
    let unclaimed = facts.unclaimed.unwrap_or_default();
    if own.write_allocs.is_empty() && unclaimed.is_empty() {
        return None;
    }
    let others = facts.sharing.unwrap_or_default().iter();
    let others: Vec<&Volume> = others
        .filter(|other| !other.write_allocs.is_empty())
        .filter(|other| is_for_one(own) || is_for_one(other))
        .collect();
    let first = others.first()?;
    let names: Vec<_> = others.iter().map(|other| other.key().quoted()).collect();
    let writers = |volume: &Volume| {
        let without_claim = unclaimed.iter().filter(|_| volume.key() == own.key());
        let without_claim = without_claim.map(|alloc| &alloc.id);
        let ids: BTreeSet<&AllocId> = volume.write_allocs.iter().chain(without_claim).collect();
        let ids: Vec<_> = ids.iter().map(|id| format!("`{}`", one_line(id.as_str()))).collect();
        format!("volume {} is written by {}", volume.key().quoted(), ids.join(", "))
    };
    let status = |volume: &Volume| {
        run(
            format!("find the jobs that use volume {}", volume.key().quoted()),
            format!("nomad-csi volume status {}", volume.key().command_words()),
        )
    };
    Some(Finding {
        rule: Rule::WrittenTwice,
        verdict: format!(
            "volume {} has the same data, is for one writer, and is written at the same time",
            names.join(", ")
        ),
        confidence: Confidence::Known,
        evidence: std::iter::once(own)
            .chain(others.iter().copied())
            .map(|volume| Evidence::new(FactSource::Volume, writers(volume)))
            .collect(),
        remedies: vec![
            act("stop the jobs of all but one of the registrations now"),
            status(first),
            run(
                "then remove the other registrations; the data stays",
                format!("nomad-csi volume deregister {}", first.key().command_words()),
            ),
        ],
    })
}

/// The claims of one registration do not count for another, so both may be written at once. That is meant only for data that
/// many may write, such as an NFS export.
pub(super) fn registered_twice(facts: &VolumeFacts<'_>) -> Option<Finding> {
    let is_for_many = |volume: &Volume| {
        let mut modes = volume.capabilities.iter().map(|one| one.access_mode);
        (!volume.capabilities.is_empty())
            && modes.all(|mode| mode == AccessMode::MultiNodeMultiWriter || !mode.allows_writes())
    };
    let own = facts.volume;
    let others = facts.sharing.unwrap_or_default().iter();
    let others = others.filter(|other| !is_for_many(own) || !is_for_many(other));
    let others: Vec<_> = others.map(Volume::key).collect();
    let first = others.first()?;
    let names: Vec<_> = others.iter().map(NamespacedId::quoted).collect();
    let remote = one_line(own.remote_id().as_str());
    Some(Finding {
        rule: Rule::RegisteredTwice,
        verdict: match &names[..] {
            [name] => format!(
                "volume {name} has the same data, and both could be written at the same time"
            ),
            _ => format!(
                "volumes {} have the same data, and all could be written at the same time",
                names.join(", ")
            ),
        },
        confidence: Confidence::Known,
        evidence: vec![Evidence::new(
            FactSource::Volume,
            format!("each has external ID `{remote}` at a plugin of one provider"),
        )],
        remedies: vec![
            run(
                "find the jobs that use the other registration",
                format!("nomad-csi volume status {}", first.command_words()),
            ),
            run(
                "remove a registration that no job uses; the data stays",
                format!("nomad-csi volume deregister {}", first.command_words()),
            ),
        ],
    })
}

#[cfg(test)]
mod tests;
