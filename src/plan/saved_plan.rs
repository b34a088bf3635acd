//! Saved plans: a reviewed plan in a file, to be applied later.
//!
//! A saved plan has no specification and no secret. For each volume it has the action, a hash of the
//! specification, the modify index and the plugin's version. Applying it builds the plan again with
//! the same options and blocks every entry that differs, so only the reviewed changes remain.
//!
//! The hash covers every field except the values of secrets and mount flags, because a hash of a
//! short value reveals it; their presence is included. The ledger records [`SavedPlan::id`] and
//! refuses to apply a plan twice; without a ledger that check is not possible.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::action::{Action, Plan, PlannedVolume};
use super::approval::Approvals;
use super::cut_offs::CutOffs;
use super::deny::DenyRule;
use super::inputs::{ObservedState, PlanOptions, PluginState};
use super::ledger::{CanonicalValue, DataIdentity};
use super::plugin_snapshots::PluginSnapshots;
use super::policy::Policies;
use super::risk::Risk;
use super::volume_version::VolumeVersion;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{
    Capability, ExternalId, HiddenField, NamespacedId, TopologyRequest, UnresolvedRequest,
    VolumeField, hex,
};

/// The newest format that this program reads.
const FORMAT: u32 = 2;

/// The format of a plan without variables, which earlier programs read too.
const FORMAT_WITHOUT_VARIABLES: u32 = 1;

/// The command that made a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanOrigin {
    /// The plan's unique ID (a UUID).
    pub id: String,
    /// When it was made, in nanoseconds since the epoch.
    pub made_at: i64,
    /// The address of the server.
    pub server: String,
    /// The kind of the server: `Nomad 2.0.5`, `nomad-csi agent`.
    pub server_kind: String,
    /// The server's version, if it was specified.
    pub server_version: Option<String>,
    /// The paths of the specification files, as they were given.
    pub files: Vec<String>,
    /// Their syntax, if it was specified.
    pub syntax: Option<String>,
    /// The directory that relative paths start from.
    pub directory: String,
    /// The namespace of volumes that specify none.
    pub namespace: Option<String>,
    /// The set of the volumes.
    pub set: Option<String>,
    /// The location of its ledger, as it was given.
    pub ledger: String,
    /// The namespace of the ledger's variables.
    pub ledger_namespace: String,
    /// The variables of the specifications.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<SavedVariable>,
}

/// The value of a variable of the specifications.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedVariable {
    /// Its name.
    pub name: String,
    /// Its value; absent if it may be a secret.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "some_value")]
    pub value: Option<Value>,
    /// Where the value came from, for readers of the file.
    pub from: String,
}

/// Reads a value that is there, also `null`.
fn some_value<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// A plan in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedPlan {
    format: u32,
    origin: PlanOrigin,
    #[serde(rename = "requests")]
    options: SavedOptions,
    approvals: SavedApprovals,
    volumes: Vec<SavedVolume>,
}

/// Why a file cannot be used as a saved plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SavedPlanProblem {
    /// The file is not a saved plan, or is truncated.
    #[error("not a saved plan: {0}")]
    Damaged(String),
    /// A newer program wrote it.
    #[error("format {0} is newer than format {FORMAT}, the newest that this program reads")]
    TooNew(u32),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedOptions {
    prune: bool,
    replace: Vec<NamespacedId>,
    snapshot_first: bool,
    delete_data: Vec<NamespacedId>,
    accept_loss: Vec<(String, NamespacedId)>,
    deny: Vec<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    no_provider: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    share: Vec<NamespacedId>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedApprovals {
    max_risk: Option<String>,
    approved: Vec<(String, NamespacedId)>,
    #[serde(default, skip_serializing_if = "CutOffs::is_empty")]
    cut_off: CutOffs,
}

/// One entry of a saved plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedVolume {
    volume: NamespacedId,
    #[serde(deserialize_with = "action_name")]
    action: String,
    /// The hash of the specification; `null` if no file named the volume.
    spec: Option<String>,
    /// `null` if the volume did not exist.
    modify_index: Option<u64>,
    /// `null` if the plugin could not be read.
    plugin_version: Option<String>,
    /// The data of a volume that the server no longer has, or has under another registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<DataIdentity>,
    /// The change of the protection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    protection: Option<String>,
}

/// Reads the name of an action. Earlier programs wrote `waits` for `wait`.
fn action_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    Ok(if name == "waits" { "wait".to_owned() } else { name })
}

impl SavedVolume {
    fn of(planned: &PlannedVolume, observed: &ObservedState) -> Self {
        Self {
            volume: planned.key.clone(),
            action: planned.action.as_str().to_owned(),
            spec: planned.spec.as_ref().map(|spec| hash(&spec.request)),
            modify_index: match planned.expected_version {
                VolumeVersion::Absent => None,
                VolumeVersion::At(index) => Some(index),
            },
            plugin_version: plugin_version(planned, observed),
            data: data(&planned.action),
            protection: planned.protection.map(|change| change.as_str().to_owned()),
        }
    }

    fn is_unchanged(&self) -> bool {
        self.action == Action::Unchanged.as_str() && self.protection.is_none()
    }

    /// Returns the entry of a volume that the files no longer declare.
    fn undeclared(&self) -> PlannedVolume {
        let key = self.volume.quoted();
        let message = format!("cannot change volume {key}: no file declares it now");
        let problem = Diagnostic::error(Code::PlanStale, message)
            .help("use the files of the plan, and give its sensitive variables again: `--var-file`, NOMAD_CSI_VAR_…")
            .help("if the volume is not needed any more, save a new plan, review it, and apply it");
        PlannedVolume {
            key: self.volume.clone(),
            spec: None,
            action: Action::Blocked(vec![problem]),
            expected_version: self.version(),
            impact: None,
            protection: None,
            depends_on: vec![],
            warnings: vec![],
        }
    }

    fn version(&self) -> VolumeVersion {
        self.modify_index.map_or(VolumeVersion::Absent, VolumeVersion::At)
    }

    /// Returns how the current entry differs from the reviewed one.
    fn differences(&self, now: &Self) -> Vec<String> {
        let mut why = vec![];
        if self.spec != now.spec {
            why.push("its specification has changed".to_owned());
        }
        why.extend(self.version().difference(now.version()));
        if self.plugin_version != now.plugin_version {
            let version = |of: &Option<String>| of.clone().unwrap_or_else(|| "unknown".into());
            let (then, now) = (version(&self.plugin_version), version(&now.plugin_version));
            why.push(format!("its plugin's version was {then} and is now {now}"));
        }
        if self.data != now.data && self.action == now.action {
            let data = |of: &Option<DataIdentity>| {
                of.as_ref().map_or("unknown".into(), DataIdentity::to_string)
            };
            let (then, now) = (data(&self.data), data(&now.data));
            why.push(format!("its data was {then} and is now {now}"));
        }
        if self.protection != now.protection {
            let change = |of: &Option<String>| of.clone().unwrap_or_else(|| "none".into());
            let (then, now) = (change(&self.protection), change(&now.protection));
            why.push(format!("its change of protection was `{then}` and is now `{now}`"));
        }
        if self.action != now.action && why.is_empty() {
            let (then, now) = (&self.action, &now.action);
            why.push(format!("its action was `{then}` and is now `{now}`"));
        }
        why
    }
}

impl SavedPlan {
    /// Returns a plan with everything that is needed to build it again.
    pub fn of(
        origin: PlanOrigin,
        plan: &Plan,
        observed: &ObservedState,
        options: &PlanOptions,
        approvals: &Approvals,
    ) -> Self {
        let names = |keys: &BTreeSet<NamespacedId>| keys.iter().cloned().collect();
        let loss =
            |(field, key): &(HiddenField, NamespacedId)| (field.as_str().to_owned(), key.clone());
        let approved = |(risk, key): &(Risk, NamespacedId)| (risk.as_str().to_owned(), key.clone());
        let deny = options.deny.iter().map(|rule| rule.as_str().to_owned());
        Self {
            format: match origin.variables.is_empty() {
                true => FORMAT_WITHOUT_VARIABLES,
                false => FORMAT,
            },
            origin,
            options: SavedOptions {
                prune: options.prune,
                replace: names(&options.replace),
                snapshot_first: options.snapshot_first,
                delete_data: names(&options.delete_data),
                accept_loss: options.accept_loss.iter().map(loss).collect(),
                deny: deny.collect(),
                no_provider: options.no_provider,
                share: names(&options.share),
            },
            approvals: SavedApprovals {
                max_risk: approvals.max_risk.map(|risk| risk.as_str().to_owned()),
                approved: approvals.approved.iter().map(approved).collect(),
                cut_off: approvals.cut_off.clone(),
            },
            volumes: plan.volumes.iter().map(|one| SavedVolume::of(one, observed)).collect(),
        }
    }

    /// Returns the text of the file.
    pub fn write(&self) -> String {
        // JSON can represent every value of the type.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Returns whether a text begins as a saved plan does. No specification has its first key.
    pub fn begins(text: &str) -> bool {
        let inside = text.trim_start().strip_prefix('{');
        inside.is_some_and(|inside| inside.trim_start().starts_with("\"format\""))
    }

    /// Reads a plan from the text of its file.
    ///
    /// # Errors
    /// If the text is not a saved plan, or a newer program wrote it.
    pub fn read(text: &str) -> Result<Self, SavedPlanProblem> {
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let damaged = |error: serde_json::Error| SavedPlanProblem::Damaged(error.to_string());
        let Version { format } = serde_json::from_str(text).map_err(damaged)?;
        if format > FORMAT {
            return Err(SavedPlanProblem::TooNew(format));
        }
        let plan: Self = serde_json::from_str(text).map_err(damaged)?;
        plan.options()?;
        plan.approvals()?;
        Ok(plan)
    }

    /// Returns the command that made the plan.
    pub fn origin(&self) -> &PlanOrigin {
        &self.origin
    }

    /// Returns the plan's unique ID, which the ledger records when the plan is applied.
    pub fn id(&self) -> &str {
        &self.origin.id
    }

    /// Returns the options of the plan.
    ///
    /// # Errors
    /// If it has a name that this program does not know.
    pub fn options(&self) -> Result<PlanOptions, SavedPlanProblem> {
        let keys = |names: &[NamespacedId]| names.iter().cloned().collect();
        let field = |word: &str| HiddenField::ALL.into_iter().find(|one| one.as_str() == word);
        let loss = |(word, key): &(String, NamespacedId)| {
            let field = field(word).ok_or_else(|| unknown_word(word))?;
            Ok((field, key.clone()))
        };
        let rule = |word: &String| {
            let known = DenyRule::ALL.into_iter().find(|one| one.as_str() == word);
            known.ok_or_else(|| unknown_word(word))
        };
        let saved = &self.options;
        Ok(PlanOptions {
            prune: saved.prune,
            replace: keys(&saved.replace),
            snapshot_first: saved.snapshot_first,
            delete_data: keys(&saved.delete_data),
            accept_loss: saved.accept_loss.iter().map(loss).collect::<Result<_, _>>()?,
            deny: saved.deny.iter().map(rule).collect::<Result<_, _>>()?,
            policies: Policies::default(),
            plugin_snapshots: PluginSnapshots::default(),
            no_provider: saved.no_provider,
            share: keys(&saved.share),
            // A saved plan is of one run.
            declared_elsewhere: Arc::default(),
        })
    }

    /// Returns the approvals that were given with the plan.
    ///
    /// # Errors
    /// If it has a name that this program does not know.
    pub fn approvals(&self) -> Result<Approvals, SavedPlanProblem> {
        let risk = |word: &String| {
            let known = Risk::ALL.into_iter().find(|one| one.as_str() == word);
            known.ok_or_else(|| unknown_word(word))
        };
        let saved = &self.approvals;
        let approved = saved.approved.iter();
        Ok(Approvals {
            max_risk: saved.max_risk.as_ref().map(risk).transpose()?,
            approved: approved
                .map(|(word, key)| Ok((risk(word)?, key.clone())))
                .collect::<Result<_, _>>()?,
            cut_off: saved.cut_off.clone(),
        })
    }

    /// Blocks every entry of the new plan that differs from this reviewed one. An entry that is forbidden now keeps that
    /// reason: a new plan would not help.
    pub fn block_changed_entries(&self, plan: &mut Plan, observed: &ObservedState) {
        let entries = self.volumes.iter().map(|entry| (&entry.volume, entry));
        let then: BTreeMap<&NamespacedId, &SavedVolume> = entries.collect();
        for planned in &mut plan.volumes {
            let now = SavedVolume::of(planned, observed);
            let is_unchanged = planned.is_unchanged();
            let why = match then.get(&planned.key) {
                Some(entry) if is_unchanged && entry.is_unchanged() => vec![],
                Some(entry) => entry.differences(&now),
                None if is_unchanged => vec![],
                None => vec!["it is not in the saved plan".to_owned()],
            };
            if !why.is_empty() && !is_denied(planned) {
                planned.block(vec![stale(planned, &why)]);
            }
        }
        let named: BTreeSet<&NamespacedId> = plan.volumes.iter().map(|one| &one.key).collect();
        let gone = then.iter().filter(|(key, _)| !named.contains(*key));
        let changed = gone.filter(|(_, entry)| !entry.is_unchanged());
        // A removal may be done already. A specification that is gone was reviewed, and something is missing: a file, or the
        // value of a variable.
        let (undeclared, done): (Vec<_>, Vec<_>) =
            changed.partition(|(_, entry)| entry.spec.is_some());
        let remarks = done.into_iter().map(|(key, entry)| {
            let message = format!(
                "the saved plan has action `{}` for volume {}, which no file or option requests now",
                entry.action,
                key.quoted()
            );
            Diagnostic::warning(Code::PlanStale, message)
                .help("save and review a new plan if the change is still needed")
        });
        plan.remarks.extend(remarks);
        let undeclared: Vec<PlannedVolume> =
            undeclared.into_iter().map(|(_, entry)| entry.undeclared()).collect();
        plan.volumes.extend(undeclared);
    }
}

/// Returns whether `--deny` or a policy has blocked an entry.
fn is_denied(planned: &PlannedVolume) -> bool {
    planned.action.reasons().iter().any(|reason| reason.code == Code::PlanDenied)
}

fn unknown_word(word: &str) -> SavedPlanProblem {
    SavedPlanProblem::Damaged(format!("unknown name `{word}`"))
}

fn stale(planned: &PlannedVolume, why: &[String]) -> Diagnostic {
    let key = planned.key.quoted();
    let message = format!("cannot change volume {key}: the saved plan is out of date");
    let mut problem = Diagnostic::error(Code::PlanStale, message);
    if let Some(span) = planned.span() {
        problem = problem.label(span, "");
    }
    for why in why {
        problem = problem.note(why.clone());
    }
    problem.help("save a new plan, review it, and apply it")
}

/// Returns the data that an action is about, if its volume is not registered with it.
fn data(action: &Action) -> Option<DataIdentity> {
    match action {
        Action::RegisterAgain(again) => DataIdentity::of_registration(&again.request),
        Action::Recreate(recreate) => recreate.lost.clone(),
        Action::Unchanged
        | Action::Create(_)
        | Action::Register(_)
        | Action::Update(_)
        | Action::Expand(_)
        | Action::Replace(_)
        | Action::Deregister
        | Action::DeleteData
        | Action::WaitingForClaims(_)
        | Action::Blocked(_) => None,
    }
}

fn plugin_version(planned: &PlannedVolume, observed: &ObservedState) -> Option<String> {
    let desired = planned.spec.as_ref().map(|spec| &spec.request.plugin_id);
    let stored = observed.volumes.get(&planned.key).map(|volume| &volume.plugin_id);
    match observed.plugins.get(desired.or(stored)?)? {
        PluginState::Known(plugin) => Some(plugin.version.clone()),
        PluginState::Missing | PluginState::Unknown => None,
    }
}

/// Returns the hash of a specification without its hidden values.
fn hash(request: &UnresolvedRequest) -> String {
    // JSON can represent every value of a request.
    let text = serde_json::to_vec(&CanonicalRequest::of(request)).unwrap_or_default();
    hex(&Sha256::digest(text)).collect()
}

/// A request without the values of secrets and mount flags, in the form that is hashed. The hash covers the
/// order of the fields. A field without a place in it follows the others if the request specifies it, so hashes of
/// earlier programs stay valid and a new field is hashed.
#[derive(Serialize)]
pub(super) struct CanonicalRequest<'r> {
    namespace: &'r str,
    id: &'r str,
    name: Option<&'r str>,
    external_id: Option<&'r str>,
    plugin_id: &'r str,
    capabilities: BTreeSet<&'r Capability>,
    capacity_min: u64,
    capacity_max: u64,
    topology_request: Option<&'r TopologyRequest>,
    clone_id: Option<&'r str>,
    snapshot_id: Option<&'r str>,
    fs_type: Option<&'r str>,
    mount_flags: Option<usize>,
    secrets: Option<Vec<&'r str>>,
    parameters: Option<&'r BTreeMap<String, String>>,
    context: Option<&'r BTreeMap<String, String>>,
    #[serde(flatten)]
    others: BTreeMap<&'static str, CanonicalValue<'r>>,
}

impl<'r> CanonicalRequest<'r> {
    pub(super) fn of(request: &'r UnresolvedRequest) -> Self {
        let options = request.mount_options.as_ref();
        let secrets = request.secrets.as_ref();
        Self {
            namespace: request.namespace.as_str(),
            id: request.id.as_str(),
            name: request.name.as_deref(),
            external_id: request.external_id.as_ref().map(ExternalId::as_str),
            plugin_id: request.plugin_id.as_str(),
            capabilities: request.capabilities.iter().collect(),
            capacity_min: request.capacity.min.get(),
            capacity_max: request.capacity.max.get(),
            topology_request: request.topology_request.as_ref(),
            clone_id: request.clone_id.as_deref(),
            snapshot_id: request.snapshot_id.as_deref(),
            fs_type: options.map(|options| options.fs_type.as_str()),
            mount_flags: options.map(|options| options.mount_flags.len()),
            secrets: secrets.map(|secrets| secrets.iter().map(|(key, _)| key).collect()),
            parameters: request.parameters.as_ref(),
            context: request.context.as_ref(),
            others: others(request, &PLACED),
        }
    }
}

/// The fields that have a place of their own in the form that is hashed.
const PLACED: [VolumeField; 14] = [
    VolumeField::Name,
    VolumeField::ExternalId,
    VolumeField::PluginId,
    VolumeField::Capability,
    VolumeField::CapacityMin,
    VolumeField::CapacityMax,
    VolumeField::Required,
    VolumeField::Preferred,
    VolumeField::CloneId,
    VolumeField::SnapshotId,
    VolumeField::FsType,
    VolumeField::MountFlags,
    VolumeField::Parameters,
    VolumeField::Context,
];

/// Returns the fields without a place that a request specifies.
fn others<'r>(
    request: &'r UnresolvedRequest,
    placed: &[VolumeField],
) -> BTreeMap<&'static str, CanonicalValue<'r>> {
    let others = VolumeField::ALL.into_iter().filter(|field| !placed.contains(field));
    others.filter_map(|field| Some((field.key(), CanonicalValue(request.field(field)?)))).collect()
}

#[cfg(test)]
mod tests;
