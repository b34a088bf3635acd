//! One text to the volumes it wants.

use std::sync::Arc;

use super::decode::{self, Document};
use super::problem::Problem;
use super::syntax::Syntax;
use super::tree::Object;
use super::volume_spec::VolumeSpec;
use super::{hcl, json, mask, yaml};
use crate::diagnostic::{Diagnostics, SourceId, SourceMap, Span};
use crate::model::{Namespace, SetName};

/// What holds where a specification says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    /// The namespace of a volume that names none.
    pub namespace: Namespace,
}

/// What one text says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// The volumes that it wants, in its order.
    pub volumes: Vec<VolumeSpec>,
    /// The sets that it names, and where.
    pub sets: Vec<(SetName, Span)>,
}

/// Reads one text of the map: the volumes that it wants, in its order, as [`parse_text`] does.
pub fn parse(
    sources: &mut SourceMap,
    source: SourceId,
    syntax: Syntax,
    defaults: &Defaults,
    diagnostics: &mut Diagnostics,
) -> Vec<VolumeSpec> {
    parse_text(sources, source, syntax, defaults, diagnostics).volumes
}

/// Reads one text of the map. A text that declares no volume and names no set is an error. Everything
/// that is wrong with it is added to `diagnostics`; if that holds an error, what is returned is good
/// for [`super::validate()`] and nothing else.
///
/// A text in HCL whose first character is `{` is JSON, whatever it is called. Secrets and mount flags
/// are hidden in `sources`, also if the text could not be read, so that no diagnostic shows them.
pub fn parse_text(
    sources: &mut SourceMap,
    source: SourceId,
    syntax: Syntax,
    defaults: &Defaults,
    diagnostics: &mut Diagnostics,
) -> Parsed {
    let text = Arc::clone(sources.text(source));
    let syntax = match syntax {
        Syntax::Hcl if Syntax::looks_like_json(&text) => Syntax::Json,
        syntax => syntax,
    };
    let documents = match read(&text, source, syntax, diagnostics) {
        Ok(documents) => documents,
        Err(problem) => {
            for range in mask::lexical(&text, syntax) {
                sources.hide(SourceMap::span(source, range));
            }
            diagnostics.push(problem.into_diagnostic(source));
            return Parsed::default();
        }
    };
    let mut secrets = vec![];
    for document in &documents {
        mask::secrets_of(document, &mut |span| secrets.push(span));
    }
    let whole = Document {
        text: &text,
        source,
        syntax,
        defaults,
    };
    let decoded = decode::decode(&documents, &whole, diagnostics);
    secrets.extend(decoded.doubtful);
    secrets.sort_unstable();
    secrets.into_iter().for_each(|span| sources.hide(span));
    Parsed {
        volumes: decoded.volumes,
        sets: decoded.sets,
    }
}

fn read<'a>(
    text: &'a str,
    source: SourceId,
    syntax: Syntax,
    diagnostics: &mut Diagnostics,
) -> Result<Vec<Object<'a>>, Problem> {
    match syntax {
        Syntax::Hcl => hcl::parse(text, source, diagnostics).map(|object| vec![object]),
        Syntax::Json => json::parse(text, source, diagnostics).map(|object| vec![object]),
        Syntax::Yaml => yaml::parse(text, source, diagnostics),
    }
}
