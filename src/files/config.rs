//! The user's config file: clusters by name.
//!
//! TOML, in `nomad-csi/config.toml` of the user's config home; beside it, `context` holds the name
//! that `context use` chose, so that a file written by hand is never rewritten. Strict: an unknown key
//! is an error with its place. **No secret is in it**: a token is a reference, and a literal one is
//! refused, hidden, and never echoed. Reading it needs no server and follows no reference.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::specs::{MAX_BYTES, reason};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, SourceId, SourceMap, Span, nearest};
use crate::model::SecretRef;

/// One cluster. What is not said is left to flags and environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterContext {
    /// Where its name stands.
    pub span: Span,
    /// `http://`, `https://` or `unix://`, without a password.
    pub address: String,
    /// The region that requests are meant for.
    pub region: Option<String>,
    /// The namespace of requests that name none.
    pub namespace: Option<String>,
    /// Where the token is had, and where that was written; never a literal.
    pub token: Option<(SecretRef, Span)>,
    /// PEM file with the authorities to trust.
    pub ca_cert: Option<PathBuf>,
    /// Directory of PEM files with the authorities to trust.
    pub ca_path: Option<PathBuf>,
    /// PEM file with the client certificate.
    pub client_cert: Option<PathBuf>,
    /// PEM file with its key.
    pub client_key: Option<PathBuf>,
    /// Name that the server's certificate must carry.
    pub tls_server_name: Option<String>,
    /// Whether any certificate is accepted, if that was said.
    pub tls_skip_verify: Option<bool>,
}

/// All clusters of a config file, by name.
pub type ClusterContexts = BTreeMap<String, ClusterContext>;

/// The keys of a context, and what each says.
pub const CONTEXT_KEYS: &[(&str, &str)] = &[
    (
        "address",
        "Address of the server: http://, https:// or unix://",
    ),
    ("region", "Region that requests are meant for"),
    ("namespace", "Namespace of requests that name none"),
    (
        "token",
        "Where the ACL token is: `{ env = \"NAME\" }` or `{ file = \"PATH\" }`",
    ),
    ("ca_cert", "PEM file with the authorities to trust"),
    (
        "ca_path",
        "Directory of PEM files with the authorities to trust",
    ),
    ("client_cert", "PEM file with the client certificate"),
    ("client_key", "PEM file with the client certificate's key"),
    (
        "tls_server_name",
        "Name that the server's certificate must carry, if it is not the host's",
    ),
    (
        "tls_skip_verify",
        "`true` accepts any server certificate: never in production",
    ),
];

/// Reads a config file; relative paths in it start from its directory. `None` if there is none of that
/// name. What is wrong is told, and then what is returned is good for nothing. Blocks while reading.
pub fn read_config(
    path: &Path,
    sources: &mut SourceMap,
    diagnostics: &mut Diagnostics,
) -> Option<ClusterContexts> {
    let text = match bounded(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            let message = format!(
                "the config file {} cannot be read: {}",
                path.display(),
                reason(&error)
            );
            diagnostics.push(Diagnostic::error(Code::ConfigUnreadable, message));
            return Some(ClusterContexts::new());
        }
    };
    let source = sources.add(path.display().to_string(), text.as_str());
    let mut reader = Reader {
        text: &text,
        directory: path.parent().unwrap_or(Path::new("")),
        source,
        hidden: vec![],
        diagnostics,
    };
    let contexts = match DeTable::parse(&text) {
        Ok(file) => reader.file(file.get_ref()),
        Err(error) => {
            reader.syntax(&error);
            ClusterContexts::new()
        }
    };
    let hidden = reader.hidden;
    hidden.into_iter().for_each(|span| sources.hide(span));
    Some(contexts)
}

fn bounded(path: &Path) -> io::Result<String> {
    if std::fs::metadata(path)?.len() > MAX_BYTES {
        return Err(io::Error::other("it is larger than 16 MiB"));
    }
    std::fs::read_to_string(path)
}

/// The name that was chosen, if one was.
///
/// # Errors
/// If the file exists and cannot be read.
pub fn chosen_context(path: &Path) -> io::Result<Option<String>> {
    match bounded(path) {
        Ok(text) => Ok(Some(text.trim().to_owned()).filter(|name| !name.is_empty())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes the name that is chosen from now on; the file is replaced whole or not at all.
///
/// # Errors
/// If it cannot be written.
pub fn choose_context(path: &Path, name: &str) -> io::Result<()> {
    use std::io::Write as _;
    let directory = path.parent().unwrap_or(Path::new(""));
    std::fs::create_dir_all(directory)?;
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    writeln!(file, "{name}")?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

type Table<'t> = DeTable<'t>;
type Value<'t> = Spanned<DeValue<'t>>;

struct Reader<'r> {
    text: &'r str,
    directory: &'r Path,
    source: SourceId,
    hidden: Vec<Span>,
    diagnostics: &'r mut Diagnostics,
}

impl Reader<'_> {
    fn span(&self, range: Range<usize>) -> Span {
        SourceMap::span(self.source, range)
    }

    fn error(&mut self, code: Code, message: impl Into<String>, range: Range<usize>, label: &str) {
        let span = self.span(range);
        self.diagnostics
            .push(Diagnostic::error(code, message).label(span, label));
    }

    /// What stands in a text that could not be read may be a token: keys and headers are shown, no
    /// values; of a text with multi-line values nothing.
    fn syntax(&mut self, error: &toml::de::Error) {
        let text = self.text;
        let range = error.span().unwrap_or(0..0);
        let message = "the config file is not well-formed TOML";
        self.error(Code::ConfigSyntax, message, range, error.message());
        let whole = text.contains("\"\"\"") || text.contains("'''");
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let shown = match line.find('=') {
                _ if whole => 0,
                Some(at) => at + 1,
                None if line.trim_start().starts_with('[') => line.len(),
                None => 0,
            };
            let span = self.span(start + shown..start + line.len());
            self.hidden.push(span);
            start += line.len();
        }
    }

    fn file(&mut self, file: &Table<'_>) -> ClusterContexts {
        let mut contexts = ClusterContexts::new();
        for (key, value) in file {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("context", DeValue::Table(named)) => self.contexts(named, &mut contexts),
                ("context", _) => self.wrong_type(key, value, "tables, `[context.NAME]`,"),
                _ => self.unknown(key, value, &["context"]),
            }
        }
        contexts
    }

    fn contexts(&mut self, named: &Table<'_>, contexts: &mut ClusterContexts) {
        for (name, value) in named {
            match value.get_ref() {
                DeValue::Table(keys) => {
                    if let Some(context) = self.context(name, keys) {
                        contexts.insert(name.get_ref().to_string(), context);
                    }
                }
                _ => self.wrong_type(name, value, "a table"),
            }
        }
    }

    fn context(
        &mut self,
        name: &Spanned<DeString<'_>>,
        keys: &Table<'_>,
    ) -> Option<ClusterContext> {
        let known: Vec<&str> = CONTEXT_KEYS.iter().map(|(key, _)| *key).collect();
        for (key, value) in keys {
            if !known.contains(&key.get_ref().as_ref()) {
                self.unknown(key, value, &known);
            }
        }
        let span = self.span(name.span());
        let address = self.text(keys, "address");
        if address.is_none() && !keys.iter().any(|(key, _)| key.get_ref() == "address") {
            let message = format!("the context `{}` has no `address`", name.get_ref());
            self.error(Code::ConfigMissingAddress, message, name.span(), "add one");
        }
        Some(ClusterContext {
            span,
            region: self.text(keys, "region"),
            namespace: self.text(keys, "namespace"),
            token: self.token(keys),
            ca_cert: self.path(keys, "ca_cert"),
            ca_path: self.path(keys, "ca_path"),
            client_cert: self.path(keys, "client_cert"),
            client_key: self.path(keys, "client_key"),
            tls_server_name: self.text(keys, "tls_server_name"),
            tls_skip_verify: self.boolean(keys, "tls_skip_verify"),
            address: self.without_password(keys, address?)?,
        })
    }

    /// An address may hold `user:password@`, which is a literal secret.
    fn without_password(&mut self, keys: &Table<'_>, address: String) -> Option<String> {
        let (_, rest) = address.split_once("://").unwrap_or(("", &address));
        let authority = rest.split('/').next().unwrap_or_default();
        if !authority.contains('@') {
            return Some(address);
        }
        let (_, value) = entry(keys, "address")?;
        let hidden = self.span(value.span());
        self.hidden.push(hidden);
        let message =
            "the address holds a user or a password, and secrets do not belong into a config file";
        self.error(
            Code::ConfigLiteralSecret,
            message,
            value.span(),
            "write the address alone, and set NOMAD_HTTP_AUTH",
        );
        None
    }

    fn token(&mut self, keys: &Table<'_>) -> Option<(SecretRef, Span)> {
        let (key, value) = entry(keys, "token")?;
        let span = self.span(value.span());
        let DeValue::Table(reference) = value.get_ref() else {
            self.hidden.push(span);
            let message = "a token does not belong into a config file";
            let help =
                "write where it is: `token = { env = \"NAME\" }` or `token = { file = \"PATH\" }`";
            self.diagnostics.push(
                Diagnostic::error(Code::ConfigLiteralSecret, message)
                    .label(self.span(key.span()), "only a reference may stand here")
                    .help(help),
            );
            return None;
        };
        let of = |name: &str| match (reference.len(), entry(reference, name)) {
            (1, Some((_, value))) => value.get_ref().as_str().map(str::to_owned),
            _ => None,
        };
        match (of("env"), of("file")) {
            (Some(name), _) if !name.is_empty() => Some((SecretRef::Env(name), span)),
            (_, Some(path)) if !path.is_empty() => Some((SecretRef::File(path), span)),
            _ => {
                self.hidden.push(span);
                self.wrong_type(key, value, "`{ env = \"NAME\" }` or `{ file = \"PATH\" }`");
                None
            }
        }
    }

    fn text(&mut self, keys: &Table<'_>, name: &str) -> Option<String> {
        let (key, value) = entry(keys, name)?;
        match value.get_ref() {
            DeValue::String(text) if !text.is_empty() => Some(text.to_string()),
            _ => {
                self.wrong_type(key, value, "a text");
                None
            }
        }
    }

    fn path(&mut self, keys: &Table<'_>, name: &str) -> Option<PathBuf> {
        let text = self.text(keys, name)?;
        if text.starts_with('~') {
            let (_, value) = entry(keys, name)?;
            let message = format!("`{name}` starts with `~`, which only a shell replaces");
            self.error(
                Code::ConfigWrongType,
                message,
                value.span(),
                "write the whole path",
            );
            return None;
        }
        Some(self.directory.join(text))
    }

    fn boolean(&mut self, keys: &Table<'_>, name: &str) -> Option<bool> {
        let (key, value) = entry(keys, name)?;
        let DeValue::Boolean(value) = value.get_ref() else {
            self.wrong_type(key, value, "`true` or `false`");
            return None;
        };
        Some(*value)
    }

    fn wrong_type(&mut self, key: &Spanned<DeString<'_>>, value: &Value<'_>, wanted: &str) {
        let hidden = self.span(value.span());
        self.hidden.push(hidden);
        let message = format!(
            "`{}` has the wrong type: {wanted} should stand here",
            key.get_ref()
        );
        self.error(Code::ConfigWrongType, message, key.span(), "");
    }

    /// A key that means nothing; its value may be a token under a misspelt key.
    fn unknown(&mut self, key: &Spanned<DeString<'_>>, value: &Value<'_>, known: &[&str]) {
        let hidden = self.span(value.span());
        let is_header = value.span().start <= key.span().start;
        if !is_header {
            self.hidden.push(hidden);
        }
        let word = key.get_ref().as_ref();
        let message = format!(
            "`{word}` is not a key of a config file's {}",
            if known.len() == 1 {
                "top level"
            } else {
                "context"
            }
        );
        let label = nearest(word, known.iter().copied()).map_or_else(
            || "this would have no effect".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        self.error(Code::ConfigUnknownKey, message, key.span(), &label);
    }
}

fn entry<'t, 'a>(
    table: &'t Table<'a>,
    name: &str,
) -> Option<(&'t Spanned<DeString<'a>>, &'t Value<'a>)> {
    table.iter().find(|(key, _)| key.get_ref().as_ref() == name)
}
