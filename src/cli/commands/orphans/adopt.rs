//! `--adopt`: orphans are registered.

use std::collections::BTreeSet;

use super::look::registered;
use super::work::{Work, capability};
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::one_line;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::model::{Capability, VolumeId};
use crate::reconcile::{Listed, adopt};

/// A volume of the provider that is to be registered.
struct Adoption {
    id: VolumeId,
    listed: Listed,
}

impl Work<'_> {
    /// Registers them.
    ///
    /// # Errors
    /// If one of them is no orphan, or nobody says how they may be used.
    pub(super) async fn adopt(mut self) -> Result<Exit, CliError> {
        let adoptions = self.adoptions()?;
        self.warn_of_unseen();
        if self.capabilities.is_empty() {
            self.capabilities = vec![self.ask_for_capability().await?];
        }
        let mut exit = Exit::Done;
        for Adoption { id, listed } in adoptions {
            let remote = listed.volume.external_id.clone();
            if self.context.interrupts.stop().is_cancelled() {
                self.say_not_begun(&remote);
                exit = exit.max(Exit::Interrupted);
                continue;
            }
            let request = self.request(id, &remote, Some(&listed));
            let key = request.key();
            match adopt(self.client, &request).await {
                Ok(warnings) => {
                    self.context.printer.talk(&one_line(&format!(
                        "volume {key}: registered, external ID {remote}"
                    )));
                    self.say_warnings(&warnings);
                }
                Err(problem) => exit = exit.max(self.not_registered(problem)),
            }
        }
        Ok(exit)
    }

    /// What is to be registered, all problems at once.
    fn adoptions(&self) -> Result<Vec<Adoption>, Diagnostics> {
        let mut adoptions = vec![];
        let mut problems = vec![];
        let mut ids = BTreeSet::new();
        for text in &self.arguments.adopt {
            match self.adoption(text) {
                Ok(adoption) if ids.insert(adoption.id.clone()) => adoptions.push(adoption),
                Ok(_) => {}
                Err(problem) => problems.extend(problem),
            }
        }
        if problems.is_empty() {
            return Ok(adoptions);
        }
        Err(problems.into_iter().collect())
    }

    /// `EXTERNAL_ID`, or `ID=EXTERNAL_ID`; an external ID may have a `=` of its own.
    fn adoption(&self, text: &str) -> Result<Adoption, Diagnostics> {
        let (id, remote) = match text.split_once('=') {
            Some((id, remote)) if self.seen.inventory.find(text).is_none() => (id, remote),
            Some(_) | None => (text, text),
        };
        let listed = self.listed(remote)?;
        if let Some(other) = listed.registered.first() {
            return Err(registered(listed, other).into());
        }
        let id = VolumeId::new(id);
        if let Some(problem) = id.problem() {
            let message = format!("a volume cannot have the ID `{}`", one_line(id.as_str()));
            return Err(Diagnostic::error(Code::CliInvalidValue, message)
                .note(problem.to_string())
                .help(format!("choose one: `--adopt ID={}`", one_line(remote)))
                .into());
        }
        Ok(Adoption {
            id,
            listed: listed.clone(),
        })
    }

    async fn ask_for_capability(&self) -> Result<Capability, CliError> {
        if self.context.stdin.is_terminal {
            let question = "How may they be used (ACCESS_MODE:ATTACHMENT_MODE, such as single-node-writer:file-system)? ";
            return capability(&self.context.answer(question).await?);
        }
        let message = "nothing was registered: nobody said how the volumes may be used";
        Err(Diagnostic::error(Code::CliInvalidValue, message)
            .note("a provider does not say it, and a server takes no volume without it")
            .help("add `--capability single-node-writer:file-system`, or what the volumes are")
            .into())
    }
}
