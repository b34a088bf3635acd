//! The specification of a volume with another size: from a file, or from the server.

use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use nomad_csi_client::reconcile::workflow::Specifications;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, SourceMap};
use nomad_csi_model::{Bytes, CapacityRange, MountOptions, SetName, UnresolvedRequest, Volume};
use nomad_csi_spec::{Defaults, Syntax, encode, parse};

/// Keeps only the volume among the volumes of the files.
pub(super) fn declared_in_files(
    mut specifications: Specifications,
    existing: &Volume,
) -> Result<Specifications, CliError> {
    let key = existing.key();
    specifications.volumes.retain(|spec| spec.key() == key);
    if specifications.volumes.is_empty() {
        let message = format!("no file declares volume {key}", key = key.quoted());
        return Err(Diagnostic::error(Code::CliInvalidValue, message)
            .help("give the file that declares the volume, or use `--size` instead of files")
            .into());
    }
    Ok(specifications)
}

/// Returns the volume as the server shows it, with another size.
pub(super) fn with_size(
    context: &CommandContext,
    existing: &Volume,
    set: Option<SetName>,
    size: Bytes,
    max_size: Bytes,
) -> Result<Specifications, CliError> {
    let text = encode(&request(existing, size, max_size), Syntax::Json);
    let mut sources = SourceMap::default();
    let source = sources.add("the volume as the server shows it", text.as_str());
    let mut problems = Diagnostics::default();
    let defaults = Defaults::default();
    let volumes = parse(&mut sources, source, Syntax::Json, &defaults, &mut problems);
    if problems.has_errors() {
        return Err(CliError::from(problems).with_sources(sources));
    }
    Ok(Specifications {
        volumes,
        sources,
        file_count: 1,
        set,
        base_directory: context.directory.clone(),
        variables: vec![],
    })
}

/// Returns the request. Mount flags that the server redacts are never sent back.
fn request(existing: &Volume, size: Bytes, max_size: Bytes) -> UnresolvedRequest {
    let kept = existing.requested_capacity.max;
    let max = match max_size {
        Bytes::ZERO if kept >= size => kept,
        max_size => max_size,
    };
    let shown = UnresolvedRequest::of_volume(existing);
    let redacted = shown.mount_options.as_ref().is_some_and(MountOptions::are_redacted);
    let options = shown.mount_options.map(MountOptions::without_redacted_flags);
    UnresolvedRequest {
        capacity: CapacityRange { min: size, max },
        mount_options: options.filter(|options| !redacted || !options.is_empty()),
        ..shown
    }
}
