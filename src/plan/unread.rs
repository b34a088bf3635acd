//! Which volumes a plan need not read, because it leaves them unchanged.
//!
//! The plan of an owned volume depends on its file, its entry in the set, the rules of the server and the
//! volume. When a plan leaves the volume unchanged without a warning, the set notes the volume's index and
//! a hash of everything else. A later plan with the same hash and, in a list of the server, the same index
//! and the same data has the same inputs, so its result is the same. Every other volume is read.
//!
//! A note counts only on the server that stores the set: an index says nothing on another one. Secrets are
//! not in the hash, because no volume shows them. They are compared each time.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::hidden_values::changes_secrets;
use super::inputs::{OwnedSet, OwnedVolume, PlanOptions, RecordedValue, SkippedVolume};
use super::ledger::{DataIdentity, FieldHash, LedgerKey, LedgerSet};
use super::rules::MergeRules;
use super::saved_plan::CanonicalRequest;
use super::update::is_unchanged_but_for_secrets;
use nomad_csi_model::{NamespacedId, Volume, VolumeSummary};
use nomad_csi_spec::VolumeSpec;

/// Volumes that a plan leaves unchanged if the server still has them as cached.
pub type CachedVolumes = BTreeMap<NamespacedId, SkippedVolume>;

/// Returns the volumes of the files that a plan leaves unchanged if the server still has them as the set
/// cached.
pub fn cached_volumes(
    desired: &[VolumeSpec],
    set: &LedgerSet,
    owned: &OwnedSet,
    rules: MergeRules,
    options: &PlanOptions,
) -> CachedVolumes {
    let rules = CachedMergeRules::of(rules);
    let cached = desired.iter().filter_map(|spec| {
        let key = spec.key();
        let owned = owned.volumes.get(&key)?;
        let is_requested = options.replace.contains(&key) || options.delete_data.contains(&key);
        if is_requested || owned.open_step.is_some() || changes_secrets(spec, owned) {
            return None;
        }
        let verified = set.ownership(&key)?.last_verified?;
        let data = owned.data.identity()?.clone();
        let inputs = plan_inputs(set.key(), spec, owned.mount_flags, &rules);
        let unread = SkippedVolume { spec_index: verified.spec_index, data };
        (verified.plan_inputs? == inputs).then_some((key, unread))
    });
    cached.collect()
}

/// Returns the cached volumes that the server still has as cached, by its list.
pub fn unread_volumes(cached: &CachedVolumes, listed: &[VolumeSummary]) -> CachedVolumes {
    let unread = listed.iter().filter_map(|listed| {
        let key = listed.key();
        let cached = cached.get(&key)?;
        let is_as_cached = cached.spec_index == listed.spec_index
            && cached.data == DataIdentity::of_listed(listed);
        is_as_cached.then(|| (key, cached.clone()))
    });
    unread.collect()
}

/// Returns the hash to note if a plan of the file leaves the volume unchanged without a warning. The
/// caller has recorded the volume in the set.
pub fn inputs_of_unchanged(
    set: &LedgerSet,
    spec: &VolumeSpec,
    volume: &Volume,
    rules: &CachedMergeRules,
) -> Option<FieldHash> {
    let key = spec.key();
    let owned = OwnedVolume::of(set, &key, set.ownership(&key)?, Some(spec), |_| None);
    is_unchanged_but_for_secrets(spec, volume, &owned, rules.rules)
        .then(|| plan_inputs(set.key(), spec, owned.mount_flags, rules))
}

/// The rules of a server that notes depend on, made once for many volumes.
#[derive(Clone, Debug)]
pub struct CachedMergeRules {
    rules: MergeRules,
    /// The rules as the hashes cover them.
    text: Arc<str>,
}

impl CachedMergeRules {
    /// Returns these rules for notes.
    pub fn of(rules: MergeRules) -> Self {
        let text = format!("{rules:?}").into();
        Self { rules, text }
    }
}

/// The inputs of the plan of a volume besides the volume, its data and the values of its secrets. The
/// rules may have changed with the program. The hash covers the order of the fields.
#[derive(Serialize)]
struct PlanDependencies<'a> {
    program: &'a str,
    rules: &'a str,
    request: CanonicalRequest<'a>,
    mount_flags: Option<&'a [String]>,
    recorded_flags: String,
    unknown: Vec<&'a str>,
    /// Left out if empty, so that earlier notes count.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    ignore: &'a [String],
}

/// Returns the hash of what the plan of a volume depends on.
fn plan_inputs(
    key: &LedgerKey,
    spec: &VolumeSpec,
    recorded_flags: RecordedValue,
    rules: &CachedMergeRules,
) -> FieldHash {
    let options = spec.request.mount_options.as_ref();
    let inputs = PlanDependencies {
        program: env!("CARGO_PKG_VERSION"),
        rules: &rules.text,
        request: CanonicalRequest::of(&spec.request),
        mount_flags: options.map(|options| options.mount_flags.as_slice()),
        recorded_flags: format!("{recorded_flags:?}"),
        unknown: spec.unknown.iter().map(|field| field.as_str()).collect(),
        ignore: &spec.ignore,
    };
    key.of_plan_inputs(&spec.key(), &inputs)
}

#[cfg(test)]
mod tests;
