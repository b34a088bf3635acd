//! A plan as a file: what somebody looked at and agreed to, to be carried out later, or not at all.
//!
//! A saved plan holds no specification and no secret. It names the files, and remembers of every
//! volume what the plan relied on: a hash of the specification, the modify index or the absence of
//! the volume, the plugin's version, and what was to be done. To apply it, the files are read again,
//! the server is looked at again, the plan is made again with the same requests, and the two are
//! held against each other: an entry that is not as it was becomes a blocked one, also one that was
//! absent and now exists (`users` 3.5, terraform#24078). What is left is what was agreed to.
//!
//! The hash covers everything that is not hidden. Values of secrets and mount flags are not in it,
//! since a hash of a short value gives it away; whether there are any is.
//!
//! Applying twice is refused by whoever keeps the ledger, which remembers [`SavedPlan::id`]; without
//! a ledger nobody can promise that.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::action::{Action, Plan, Planned};
use super::approval::Approvals;
use super::deny::DenyRule;
use super::inputs::{Observed, PluginState, Requests};
use super::pin::Pin;
use super::risk::Risk;
use crate::diagnostic::{Code, Diagnostic};
use crate::model::{ExternalId, HiddenField, NamespacedId, WantedRequest, hex};

/// The format that this program writes, and the latest that it reads.
const FORMAT: u32 = 1;

/// What a plan was made of, besides what it says itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// Told apart from every other plan (a UUID).
    pub id: String,
    /// When it was made, nanoseconds since the epoch.
    pub made_at: i64,
    /// Which server it was made for: its address.
    pub server: String,
    /// What that server is: `Nomad 2.0.5`, `nomad-csi agent`.
    pub server_kind: String,
    /// The server's version, if somebody said it.
    pub server_version: Option<String>,
    /// Where the specifications are, as they were named.
    pub files: Vec<String>,
    /// Their syntax, if somebody said it.
    pub syntax: Option<String>,
    /// What relative names of files start from.
    pub directory: String,
    /// The namespace of volumes that name none.
    pub namespace: Option<String>,
    /// The set that the volumes belong to.
    pub set: Option<String>,
    /// Where it is remembered, as it was typed.
    pub ledger: String,
    /// The namespace of the ledger's variables.
    pub ledger_namespace: String,
}

/// A plan as a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedPlan {
    format: u32,
    origin: Origin,
    requests: SavedRequests,
    approvals: SavedApprovals,
    volumes: Vec<Entry>,
}

/// Why a text is no saved plan that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SavedPlanProblem {
    /// It is something else, or was cut off.
    #[error("it is no saved plan: {0}")]
    Damaged(String),
    /// A later program wrote it.
    #[error("it is of format {0}, and this program reads up to {FORMAT}")]
    TooNew(u32),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedRequests {
    prune: bool,
    replace: Vec<NamespacedId>,
    snapshot_first: bool,
    delete_data: Vec<NamespacedId>,
    accept_loss: Vec<(String, NamespacedId)>,
    deny: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedApprovals {
    max_risk: Option<String>,
    approved: Vec<(String, NamespacedId)>,
}

/// What one entry relied on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    volume: NamespacedId,
    action: String,
    /// Of the specification; `null` if no file named the volume.
    spec: Option<String>,
    /// `null`: it did not exist.
    modify_index: Option<u64>,
    /// `null`: it could not be read.
    plugin_version: Option<String>,
}

impl Entry {
    fn of(planned: &Planned, observed: &Observed) -> Self {
        Self {
            volume: planned.key.clone(),
            action: planned.action.word().to_owned(),
            spec: planned.spec.as_ref().map(|spec| hash(&spec.request)),
            modify_index: match planned.pin {
                Pin::Absent => None,
                Pin::At(index) => Some(index),
            },
            plugin_version: plugin_version(planned, observed),
        }
    }

    fn is_unchanged(&self) -> bool {
        self.action == Action::Unchanged.word()
    }

    /// Why `now` is not what somebody agreed to.
    fn moved(&self, now: &Self) -> Vec<String> {
        let mut why = vec![];
        if self.spec != now.spec {
            why.push("its specification has changed".to_owned());
        }
        match (self.modify_index, now.modify_index) {
            (None, Some(_)) => why.push("it did not exist, and now it does".to_owned()),
            (Some(_), None) => why.push("it existed, and now it does not".to_owned()),
            (Some(then), Some(now)) if then != now => {
                why.push(format!("it was at index {then}, and now it is at {now}"));
            }
            (None, None) | (Some(_), Some(_)) => {}
        }
        if self.plugin_version != now.plugin_version {
            let version = |of: &Option<String>| of.clone().unwrap_or_else(|| "not known".into());
            let (then, now) = (version(&self.plugin_version), version(&now.plugin_version));
            why.push(format!(
                "its plugin's version was {then}, and now it is {now}"
            ));
        }
        if self.action != now.action && why.is_empty() {
            let (then, now) = (&self.action, &now.action);
            why.push(format!("it was to be: {then}; now it would be: {now}"));
        }
        why
    }
}

impl SavedPlan {
    /// A plan with everything that is needed to make it again.
    pub fn of(
        origin: Origin,
        plan: &Plan,
        observed: &Observed,
        requests: &Requests,
        approvals: &Approvals,
    ) -> Self {
        let names = |keys: &BTreeSet<NamespacedId>| keys.iter().cloned().collect();
        let loss =
            |(field, key): &(HiddenField, NamespacedId)| (field.as_str().to_owned(), key.clone());
        let approved = |(risk, key): &(Risk, NamespacedId)| (risk.as_str().to_owned(), key.clone());
        let deny = requests.deny.iter().map(|rule| rule.as_str().to_owned());
        Self {
            format: FORMAT,
            origin,
            requests: SavedRequests {
                prune: requests.prune,
                replace: names(&requests.replace),
                snapshot_first: requests.snapshot_first,
                delete_data: names(&requests.delete_data),
                accept_loss: requests.accept_loss.iter().map(loss).collect(),
                deny: deny.collect(),
            },
            approvals: SavedApprovals {
                max_risk: approvals.max_risk.map(|risk| risk.as_str().to_owned()),
                approved: approvals.approved.iter().map(approved).collect(),
            },
            volumes: plan
                .volumes
                .iter()
                .map(|one| Entry::of(one, observed))
                .collect(),
        }
    }

    /// The text of the file.
    pub fn write(&self) -> String {
        // Texts, numbers and lists of them: there is nothing that JSON could not hold.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// A plan out of its file.
    ///
    /// # Errors
    /// If it is none, or a later program wrote it.
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
        plan.requests()?;
        plan.approvals()?;
        Ok(plan)
    }

    /// What it was made of.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Its name among all plans, under which a ledger remembers that it was applied.
    pub fn id(&self) -> &str {
        &self.origin.id
    }

    /// What was asked for by name when it was made.
    ///
    /// # Errors
    /// If it holds a word that this program does not know.
    pub fn requests(&self) -> Result<Requests, SavedPlanProblem> {
        let keys = |names: &[NamespacedId]| names.iter().cloned().collect();
        let field = |word: &str| {
            HiddenField::ALL
                .into_iter()
                .find(|one| one.as_str() == word)
        };
        let loss = |(word, key): &(String, NamespacedId)| {
            let field = field(word).ok_or_else(|| unknown_word(word))?;
            Ok((field, key.clone()))
        };
        let rule = |word: &String| {
            let known = DenyRule::ALL.into_iter().find(|one| one.as_str() == word);
            known.ok_or_else(|| unknown_word(word))
        };
        let saved = &self.requests;
        Ok(Requests {
            prune: saved.prune,
            replace: keys(&saved.replace),
            snapshot_first: saved.snapshot_first,
            delete_data: keys(&saved.delete_data),
            accept_loss: saved
                .accept_loss
                .iter()
                .map(loss)
                .collect::<Result<_, _>>()?,
            deny: saved.deny.iter().map(rule).collect::<Result<_, _>>()?,
        })
    }

    /// What was agreed to when it was made.
    ///
    /// # Errors
    /// If it holds a word that this program does not know.
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
        })
    }

    /// Leaves in a plan that was made anew only what this one agreed to: an entry that is not as it
    /// was becomes a blocked one.
    pub fn hold_against(&self, plan: &mut Plan, observed: &Observed) {
        let entries = self.volumes.iter().map(|entry| (&entry.volume, entry));
        let then: BTreeMap<&NamespacedId, &Entry> = entries.collect();
        for planned in &mut plan.volumes {
            let now = Entry::of(planned, observed);
            let is_unchanged = planned.action == Action::Unchanged;
            let why = match then.get(&planned.key) {
                Some(entry) if is_unchanged && entry.is_unchanged() => vec![],
                Some(entry) => entry.moved(&now),
                None if is_unchanged => vec![],
                None => vec!["the saved plan does not name it".to_owned()],
            };
            if !why.is_empty() {
                planned.action = Action::Blocked(vec![stale(planned, &why)]);
                planned.stakes = None;
            }
        }
        let named: BTreeSet<&NamespacedId> = plan.volumes.iter().map(|one| &one.key).collect();
        let gone = then.iter().filter(|(key, _)| !named.contains(*key));
        let changed = gone.filter(|(_, entry)| !entry.is_unchanged());
        let remarks = changed.map(|(key, entry)| {
            let message = format!(
                "the saved plan would {} volume {key}, and nothing asks for that any more",
                entry.action
            );
            Diagnostic::warning(Code::PlanStale, message)
                .help("make a new plan if that is not what is meant")
        });
        plan.remarks.extend(remarks);
    }
}

fn unknown_word(word: &str) -> SavedPlanProblem {
    SavedPlanProblem::Damaged(format!("`{word}` has no meaning here"))
}

fn stale(planned: &Planned, why: &[String]) -> Diagnostic {
    let key = &planned.key;
    let message = format!("volume {key} is left as it is: the saved plan no longer fits it");
    let mut problem = Diagnostic::error(Code::PlanStale, message);
    if let Some(span) = planned.span() {
        problem = problem.label(span, "");
    }
    for why in why {
        problem = problem.note(why.clone());
    }
    problem.help("make a new plan, look at it, and apply that")
}

fn plugin_version(planned: &Planned, observed: &Observed) -> Option<String> {
    let wanted = planned.spec.as_ref().map(|spec| &spec.request.plugin_id);
    let stored = observed
        .volumes
        .get(&planned.key)
        .map(|volume| &volume.plugin_id);
    match observed.plugins.get(wanted.or(stored)?)? {
        PluginState::Known(plugin) => Some(plugin.version.clone()),
        PluginState::Missing | PluginState::Unknown => None,
    }
}

/// Of everything that a specification says, except hidden values.
fn hash(request: &WantedRequest) -> String {
    hex(&Sha256::digest(canonical(request).to_string())).collect()
}

fn canonical(request: &WantedRequest) -> Value {
    let options = request.mount_options.as_ref();
    let secrets = request.secrets.as_ref();
    json!({
        "namespace": request.namespace.as_str(),
        "id": request.id.as_str(),
        "name": request.name,
        "external_id": request.external_id.as_ref().map(ExternalId::as_str),
        "plugin_id": request.plugin_id.as_str(),
        "capabilities": request.capabilities.iter().collect::<BTreeSet<_>>(),
        "capacity_min": request.capacity.min.get(),
        "capacity_max": request.capacity.max.get(),
        "topology_request": request.topology_request,
        "clone_id": request.clone_id,
        "snapshot_id": request.snapshot_id,
        "fs_type": options.map(|options| &options.fs_type),
        "mount_flags": options.map(|options| options.mount_flags.len()),
        "secrets": secrets.map(|secrets| secrets.iter().map(|(key, _)| key).collect::<Vec<_>>()),
        "parameters": request.parameters,
        "context": request.context,
    })
}

#[cfg(test)]
mod tests;
