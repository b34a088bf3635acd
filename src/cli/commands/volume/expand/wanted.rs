//! What is wanted of the volume: what a file says, or itself with another size.

use crate::cli::error::CliError;
use crate::cli::specs::Wanted;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, SourceMap};
use crate::model::{Bytes, CapacityRange, MountOptions, Volume, WantedRequest};
use crate::spec::{Defaults, Syntax, encode, parse};

/// What the files say of that volume, and of no other.
pub(super) fn of_files(mut wanted: Wanted, existing: &Volume) -> Result<Wanted, CliError> {
    let key = existing.key();
    wanted.volumes.retain(|spec| spec.key() == key);
    if wanted.volumes.is_empty() {
        let message = format!("no file names volume {key}");
        return Err(Diagnostic::error(Code::CliInvalidValue, message)
            .help("give the file that declares the volume, or `--size` instead of files")
            .into());
    }
    Ok(wanted)
}

/// The volume as the server shows it, with another size, as a specification.
pub(super) fn as_it_is(existing: &Volume, size: Bytes, largest: Bytes) -> Result<Wanted, CliError> {
    let text = encode(&request(existing, size, largest), Syntax::Json);
    let mut sources = SourceMap::default();
    let source = sources.add("the volume as the server shows it", text.as_str());
    let mut problems = Diagnostics::default();
    let defaults = Defaults::default();
    let volumes = parse(&mut sources, source, Syntax::Json, &defaults, &mut problems);
    if problems.has_errors() {
        return Err(CliError::from(problems).in_texts(sources));
    }
    Ok(Wanted {
        volumes,
        sources,
        texts: 1,
        set: None,
    })
}

/// What a server shows in place of mount flags is never sent back to it.
fn request(existing: &Volume, size: Bytes, largest: Bytes) -> WantedRequest {
    let kept = existing.requested_capacity.max;
    let max = match largest {
        Bytes::ZERO if kept >= size => kept,
        largest => largest,
    };
    let options = existing.mount_options.clone();
    let options = options.and_then(|options| match options.are_redacted() {
        false => Some(options),
        true if options.fs_type.is_empty() => None,
        true => Some(MountOptions {
            mount_flags: vec![],
            ..options
        }),
    });
    let said = |text: &String| (!text.is_empty()).then(|| text.clone());
    let map =
        |map: &std::collections::BTreeMap<String, String>| (!map.is_empty()).then(|| map.clone());
    WantedRequest {
        namespace: existing.namespace.clone(),
        id: existing.id.clone(),
        name: said(&existing.name),
        external_id: existing.external_id.clone(),
        plugin_id: existing.plugin_id.clone(),
        capabilities: existing.capabilities.clone(),
        capacity: CapacityRange { min: size, max },
        topology_request: existing.topology_request.clone(),
        clone_id: existing.clone_id.clone(),
        snapshot_id: existing.snapshot_id.clone(),
        mount_options: options,
        secrets: None,
        parameters: map(&existing.parameters),
        context: map(&existing.context),
    }
}
