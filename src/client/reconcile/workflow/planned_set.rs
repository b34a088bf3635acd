//! Reads the set that a plan is made for, and in the meantime the lists that may save it from reading volumes.
//!
//! A list is worth its cost only with the notes of the set. Of most sets that exist they say much, so the
//! lists are begun before the notes are known, and abandoned if there are none.

use std::pin::pin;

use futures_util::future::{Either, select};

use super::context::WorkflowContext;
use super::error::WorkflowError;
use super::ledger_access::SetSelection;
use super::plan_request::Reading;
use crate::reconcile::ledger::SetLedger;
use crate::reconcile::unread_volumes::NamespaceLists;
use nomad_csi_spec::VolumeSpec;

/// Reads a set, and which volumes a plan of `desired` reads. The notes of a set that the server does not
/// store are not used.
///
/// # Errors
/// If the ledger cannot be read or used, or the user interrupts.
pub async fn open_planned_set(
    context: &WorkflowContext<'_>,
    selection: &SetSelection,
    desired: &[VolumeSpec],
) -> Result<(SetLedger, Reading), WorkflowError> {
    let opening = async {
        if !selection.access.ledger.is_on_server() {
            return Ok((selection.open().await?, Reading::Everything));
        }
        let opening = pin!(selection.open());
        let listing = pin!(NamespaceLists::read(context.api, desired));
        let (set, lists) = match select(opening, listing).await {
            Either::Left((set, listing)) => {
                let set = set?;
                if !set.set().has_notes() {
                    return Ok((set, Reading::Everything));
                }
                (set, listing.await)
            }
            Either::Right((lists, opening)) => (opening.await?, lists),
        };
        Ok((set, Reading::WhatMayHaveChanged(lists)))
    };
    context.unless_interrupted(opening).await?
}
