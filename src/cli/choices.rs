//! What somebody asked for besides the files: words of the command line to the planner's.
//!
//! A volume is named `ID` or `NAMESPACE/ID`; an ID holds no slash. A bare ID is the volume of that
//! ID in the files, if there is just one, and else the one in the command's namespace.

use std::collections::BTreeSet;

use super::args::Choices;
use super::context::Context;
use super::error::CliError;
use crate::diagnostic::{Code, Diagnostic, nearest};
use crate::model::{Namespace, NamespacedId, ServerVersion, VolumeId};
use crate::plan::{Approvals, HiddenField, Requests, Risk};
use crate::spec::VolumeSpec;

/// What was asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Chosen {
    /// What the server is said to be.
    pub version: Option<ServerVersion>,
    /// What may be done besides.
    pub requests: Requests,
    /// How bad it may be.
    pub approvals: Approvals,
}

/// Reads the choices, with the files that they are about.
///
/// # Errors
/// If one of them names nothing that could be meant.
pub(super) fn chosen(
    context: &Context,
    choices: &Choices,
    wanted: &[VolumeSpec],
) -> Result<Chosen, CliError> {
    let namespace = context.namespace()?.unwrap_or_default();
    let names = Names { wanted, namespace };
    let replace = names.all(&choices.replace)?;
    if let Some(stranger) = replace.iter().find(|key| !names.are_wanted(key)) {
        let message = format!("volume {stranger} cannot be replaced: no file wants it");
        return Err(Diagnostic::error(Code::CliInvalidValue, message)
            .help("`--replace` removes a volume and makes it anew as a file says")
            .into());
    }
    let approve = choices.approve.iter();
    let accept_loss = choices.accept_loss.iter();
    Ok(Chosen {
        version: choices.server_version.clone(),
        requests: Requests {
            prune: choices.prune,
            replace,
            snapshot_first: choices.snapshot_first,
            delete_data: names.all(&choices.delete_data)?,
            accept_loss: accept_loss
                .map(|text| {
                    names.pair(
                        "--accept-loss",
                        text,
                        &HiddenField::ALL,
                        HiddenField::as_str,
                    )
                })
                .collect::<Result<_, _>>()?,
            deny: choices.deny.iter().copied().collect(),
        },
        approvals: Approvals {
            max_risk: choices.max_risk,
            approved: approve
                .map(|text| names.pair("--approve", text, &Risk::ALL, Risk::as_str))
                .collect::<Result<_, _>>()?,
        },
    })
}

/// Whose names are meant.
struct Names<'a> {
    wanted: &'a [VolumeSpec],
    namespace: Namespace,
}

impl Names<'_> {
    fn are_wanted(&self, key: &NamespacedId) -> bool {
        self.wanted.iter().any(|spec| spec.key() == *key)
    }

    fn all(&self, texts: &[String]) -> Result<BTreeSet<NamespacedId>, CliError> {
        texts.iter().map(|text| self.one(text)).collect()
    }

    fn one(&self, text: &str) -> Result<NamespacedId, CliError> {
        if let Some((namespace, id)) = text.split_once('/') {
            return Ok(NamespacedId::new(
                Namespace::new(namespace),
                VolumeId::new(id),
            ));
        }
        let of_id = self
            .wanted
            .iter()
            .filter(|spec| spec.request.id.as_str() == text);
        let keys: Vec<NamespacedId> = of_id.map(VolumeSpec::key).collect();
        match keys.as_slice() {
            [] => Ok(NamespacedId::new(
                self.namespace.clone(),
                VolumeId::new(text),
            )),
            [only] => Ok(only.clone()),
            several => {
                let message = format!("the files have {} volumes `{text}`", several.len());
                Err(Diagnostic::error(Code::CliAmbiguousId, message)
                    .help(format!(
                        "write the namespace before it: `{}/{text}`",
                        several[0].namespace
                    ))
                    .into())
            }
        }
    }

    /// `WORD:NAME`.
    fn pair<T: Copy>(
        &self,
        flag: &str,
        text: &str,
        all: &[T],
        word: fn(T) -> &'static str,
    ) -> Result<(T, NamespacedId), CliError> {
        let (first, name) = text.split_once(':').unwrap_or((text, ""));
        let words = all.iter().map(|one| word(*one));
        let Some(one) = all.iter().find(|one| word(**one) == first) else {
            let known = words.clone().collect::<Vec<_>>().join(", ");
            let message = format!("`{flag} {text}` does not start with one of: {known}");
            let problem = Diagnostic::error(Code::CliInvalidValue, message);
            return Err(match nearest(first, words) {
                Some(similar) => problem.help(format!("is `{similar}:{name}` meant?")).into(),
                None => problem.into(),
            });
        };
        if name.is_empty() {
            let message = format!("`{flag} {text}` names no volume");
            return Err(Diagnostic::error(Code::CliInvalidValue, message)
                .help(format!("write `{flag} {first}:ID`"))
                .into());
        }
        Ok((*one, self.one(name)?))
    }
}
