//! Facts about one volume besides its registration: its claims, and what is wrong with it.
//!
//! It only explains, and the volume itself is the answer. So what cannot be read is left out. A provider
//! that was asked and did not answer is reported, because its data may be gone.

use std::time::Duration;

use super::context::WorkflowContext;
use crate::ports::ServerKind;
use crate::reconcile::volume_facts::{FactOptions, FactReading};
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{Volume, VolumeClaim};
use nomad_csi_plan::doctor::{Finding, diagnose};

/// How long the provider's list is waited for: the registration is the answer, and the list may have many volumes. `volume
/// doctor` waits longer.
const PROVIDER_LIMIT: Duration = Duration::from_secs(5);

/// The claims of a volume, and what is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeOverview {
    /// The claims. Empty on Nomad, which hides them.
    pub claims: Vec<VolumeClaim>,
    /// The problems of the volume, its claims and its data.
    pub findings: Vec<Finding>,
    /// Warnings about the provider's list, which could not be read.
    pub warnings: Vec<Diagnostic>,
}

/// Returns what is not known may be the writer that keeps the volume from being free.
fn warnings(reading: &FactReading) -> Vec<Diagnostic> {
    let mut warnings = reading.unread_providers();
    if !reading.unread_users.is_empty() {
        let message = "whether an allocation without a claim writes to the volume is not known";
        let warning = Diagnostic::warning(Code::VolumeInUse, message);
        let reasons = reading.unread_users.iter();
        warnings.push(reasons.fold(warning, |warning, why| warning.note(why.clone())));
    }
    warnings
}

/// Returns what is known about a volume. Of an agent it reads nothing if nothing claims it and the provider is not asked;
/// a Nomad server drops claims of allocations that may still write, so there the allocations are read.
pub async fn volume_overview(
    context: &WorkflowContext<'_>,
    volume: &Volume,
    asks_provider: bool,
) -> VolumeOverview {
    let drops_claims = matches!(
        context.api.server().await,
        Ok(ServerKind::Nomad(_) | ServerKind::NomadUnknownVersion)
    );
    if !volume.is_claimed() && !asks_provider && !drops_claims {
        return VolumeOverview::default();
    }
    let volumes = std::slice::from_ref(volume);
    let options = FactOptions {
        asks_providers: asks_provider,
        provider_limit: PROVIDER_LIMIT,
        reads_evaluations: drops_claims,
        parallelism: context.parallelism,
        ..FactOptions::of_claims(context.clock.now())
    };
    match FactReading::read(context.api, volumes, options).await {
        Ok(reading) => {
            let facts = reading.facts(volume);
            VolumeOverview {
                claims: facts.claims.unwrap_or_default().to_vec(),
                findings: diagnose(&facts),
                warnings: warnings(&reading),
            }
        }
        Err(_) => VolumeOverview::default(),
    }
}
