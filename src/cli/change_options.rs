//! Options of a command line that change volumes, parsed for the planner.
//!
//! A volume is named `ID` or `NAMESPACE/ID`. An ID contains no slash. A bare ID names the volume of
//! that ID in the files if there is exactly one, and otherwise the one in the command's namespace.

use std::collections::BTreeSet;

use super::args::ChangeArgs;
use super::command_context::CommandContext;
use super::error::CliError;
use nomad_csi_client::reconcile::workflow::ChangeOptions;
use nomad_csi_model::diagnostic::{Code, Diagnostic, closest_match};
use nomad_csi_model::{HiddenField, Namespace, NamespacedId, VolumeId};
use nomad_csi_plan::{Approvals, CUTS_OFF, PlanOptions, PluginSnapshots, Risk};
use nomad_csi_spec::VolumeSpec;

/// Parses the options. `desired` are the volumes that the files declare.
///
/// # Errors
/// If an option names no volume, or an ambiguous one, or a policy cannot be read.
pub(super) fn change_options(
    context: &CommandContext,
    arguments: &ChangeArgs,
    desired: &[VolumeSpec],
) -> Result<ChangeOptions, CliError> {
    let namespace = context.namespace()?.unwrap_or_default();
    let names = VolumeNames { desired, namespace };
    let replace = names.resolve_all(&arguments.replace)?;
    if let Some(undeclared) = replace.iter().find(|key| !names.is_declared(key)) {
        let message = format!("cannot replace volume `{undeclared}`: no file declares it");
        return Err(Diagnostic::error(Code::CliInvalidValue, message)
            .help("declare the volume in a file; `--replace` recreates it from there")
            .into());
    }
    let approve = arguments.approve.iter();
    let accept_loss = arguments.accept_loss.iter();
    let hidden_field = |text: &String| {
        let fields = &HiddenField::ALL;
        names.parse_pair("--accept-loss", text, fields, HiddenField::as_str)
    };
    Ok(ChangeOptions {
        server_version: arguments.server_version.clone(),
        plan: PlanOptions {
            prune: arguments.prune,
            replace,
            snapshot_first: arguments.snapshot_first,
            delete_data: names.resolve_all(&arguments.delete_data)?,
            accept_loss: accept_loss.map(hidden_field).collect::<Result<_, _>>()?,
            deny: arguments.deny.iter().copied().collect(),
            policies: context.policies()?.clone(),
            plugin_snapshots: PluginSnapshots::default(),
            no_provider: arguments.no_provider,
            share: names.resolve_all(&arguments.share)?,
            declared_elsewhere: arguments.declared_in_runs.clone().unwrap_or_default(),
        },
        is_one_of_several: arguments.declared_in_runs.is_some(),
        approvals: Approvals {
            max_risk: arguments.max_risk,
            cut_off: approve.clone().filter_map(|text| cut_off(text)).collect(),
            approved: approve
                .filter(|text| cut_off(text).is_none())
                .map(|text| names.parse_pair(APPROVE, text, &Risk::ALL, Risk::as_str))
                .collect::<Result<_, _>>()?,
        },
    })
}

const APPROVE: &str = "--approve";

/// Returns the ID of the allocation or node that an approval cuts off; `None` if it is another approval.
pub(super) fn cut_off(text: &str) -> Option<&str> {
    match text.split_once(':') {
        Some((CUTS_OFF, id)) if !id.is_empty() => Some(id),
        Some(_) | None => None,
    }
}

/// Resolves the names of volumes on the command line.
struct VolumeNames<'a> {
    desired: &'a [VolumeSpec],
    namespace: Namespace,
}

impl VolumeNames<'_> {
    fn is_declared(&self, key: &NamespacedId) -> bool {
        self.desired.iter().any(|spec| spec.key() == *key)
    }

    fn resolve_all(&self, texts: &[String]) -> Result<BTreeSet<NamespacedId>, CliError> {
        texts.iter().map(|text| self.resolve(text)).collect()
    }

    fn resolve(&self, text: &str) -> Result<NamespacedId, CliError> {
        if let Some((namespace, id)) = text.split_once('/') {
            return Ok(NamespacedId::new(Namespace::new(namespace), VolumeId::new(id)));
        }
        let of_id = self.desired.iter().filter(|spec| spec.request.id.as_str() == text);
        let keys: Vec<NamespacedId> = of_id.map(VolumeSpec::key).collect();
        match keys.as_slice() {
            [] => Ok(NamespacedId::new(self.namespace.clone(), VolumeId::new(text))),
            [only] => Ok(only.clone()),
            several => {
                let message = format!("the files declare {} volumes `{text}`", several.len());
                Err(Diagnostic::error(Code::CliAmbiguousId, message)
                    .help(format!("add the namespace: `{}/{text}`", several[0].namespace))
                    .into())
            }
        }
    }

    /// Parses `WORD:VOLUME`.
    fn parse_pair<T: Copy>(
        &self,
        flag: &str,
        text: &str,
        all: &[T],
        word: fn(T) -> &'static str,
    ) -> Result<(T, NamespacedId), CliError> {
        let (first, name) = text.split_once(':').unwrap_or((text, ""));
        let words = all.iter().map(|one| word(*one));
        let Some(one) = all.iter().find(|one| word(**one) == first) else {
            if flag == APPROVE && first == CUTS_OFF {
                let message = format!("`{flag} {text}` names no allocation or node");
                let problem = Diagnostic::error(Code::CliInvalidValue, message);
                let help = format!("write `{flag} {CUTS_OFF}:` and the full ID");
                return Err(problem.help(help).into());
            }
            let also = (flag == APPROVE).then_some(CUTS_OFF);
            let known = words.clone().chain(also).collect::<Vec<_>>().join(", ");
            let message = format!("`{flag} {text}` must start with one of: {known}");
            let problem = Diagnostic::error(Code::CliInvalidValue, message);
            return Err(match closest_match(first, words) {
                Some(similar) => problem.help(format!("did you mean `{similar}:{name}`?")).into(),
                None => problem.into(),
            });
        };
        if name.is_empty() {
            let message = format!("`{flag} {text}` names no volume");
            return Err(Diagnostic::error(Code::CliInvalidValue, message)
                .help(format!("write `{flag} {first}:ID`"))
                .into());
        }
        Ok((*one, self.resolve(name)?))
    }
}
