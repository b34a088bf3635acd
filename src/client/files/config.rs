//! The user's config file: named clusters, in TOML.
//!
//! The file is `nomad-csi/config.toml` in the user's config directory. Beside it, the file
//! `context` has the name that `context use` selected, so a hand-written config file is never
//! rewritten. An unknown key is an error with its position. **The file contains no secrets**: a
//! token is a reference, and a literal token is refused and hidden. Reading the file needs no
//! server and resolves no reference.
//!
//! The file decides which files are sent to which servers as tokens. So it is used only if no other user could have written
//! or replaced it.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::given::{GivenFile, PIPE_LIMIT};
use super::specs::{MAX_BYTES, reason};
use nomad_csi_model::SecretRef;
use nomad_csi_model::diagnostic::{
    Code, Diagnostic, Diagnostics, SourceId, SourceMap, Span, closest_match,
};
use nomad_csi_model::private::{NotPrivate, open_given_choice};

/// One cluster. Flags and environment variables provide unset fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterContext {
    /// The position of its name.
    pub span: Span,
    /// `http://`, `https://` or `unix://`, without a password.
    pub address: String,
    /// The region of requests.
    pub region: Option<String>,
    /// The namespace of requests that set none.
    pub namespace: Option<String>,
    /// The reference to the token and its position; never a literal.
    pub token: Option<(SecretRef, Span)>,
    /// PEM file with the authorities to trust.
    pub ca_cert: Option<PathBuf>,
    /// Directory of PEM files with the authorities to trust.
    pub ca_path: Option<PathBuf>,
    /// PEM file with the client certificate.
    pub client_cert: Option<PathBuf>,
    /// PEM file with its key.
    pub client_key: Option<PathBuf>,
    /// Name in the server's certificate.
    pub tls_server_name: Option<String>,
    /// True to accept any certificate; the default applies if it is missing.
    pub tls_skip_verify: Option<bool>,
    /// The policy that commands with this context obey.
    pub policy: Option<PathBuf>,
}

/// All clusters of a config file, by name.
pub type ClusterContexts = BTreeMap<String, ClusterContext>;

/// The keys of a context, with their documentation.
pub const CONTEXT_KEYS: &[(&str, &str)] = &[
    ("address", "Address of the server: http://, https:// or unix://"),
    ("region", "Region of requests"),
    ("namespace", "Namespace of requests that set none"),
    ("token", "Where the ACL token is: `{ env = \"NAME\" }` or `{ file = \"PATH\" }`"),
    ("ca_cert", "PEM file with the authorities to trust"),
    ("ca_path", "Directory of PEM files with the authorities to trust"),
    ("client_cert", "PEM file with the client certificate"),
    ("client_key", "PEM file with the client certificate's key"),
    ("tls_server_name", "Name in the server's certificate, if not the host"),
    ("tls_skip_verify", "`true` accepts any server certificate; never use it in production"),
    ("policy", "Policy file that commands with this context obey"),
];

/// Reads a config file; `None` if it does not exist. Relative paths start from its directory.
/// Problems are added to `diagnostics`; after an error, do not use the result. Blocks while
/// reading.
pub fn read_config(
    path: &Path,
    sources: &mut SourceMap,
    diagnostics: &mut Diagnostics,
) -> Option<ClusterContexts> {
    let text = match read_limited(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            if let Some(refused) = NotPrivate::find(&error) {
                diagnostics.push(refused.diagnostic("use the config file"));
                return Some(ClusterContexts::new());
            }
            let message =
                format!("cannot read config file `{}`: {}", path.display(), reason(&error));
            diagnostics.push(Diagnostic::error(Code::ConfigUnreadable, message));
            return Some(ClusterContexts::new());
        }
    };
    Some(parse_config(&text, path, sources, diagnostics))
}

/// Reads the text of a config file, which is or will be at `path`. Problems are added to `diagnostics`.
pub fn parse_config(
    text: &str,
    path: &Path,
    sources: &mut SourceMap,
    diagnostics: &mut Diagnostics,
) -> ClusterContexts {
    let source = sources.add(path.display().to_string(), text);
    let mut reader = ConfigReader {
        text,
        directory: path.parent().unwrap_or(Path::new("")),
        source,
        hidden: vec![],
        diagnostics,
    };
    let contexts = match DeTable::parse(text) {
        Ok(file) => reader.file(file.get_ref()),
        Err(error) => {
            reader.syntax(&error);
            ClusterContexts::new()
        }
    };
    let hidden = reader.hidden;
    hidden.into_iter().for_each(|span| sources.hide(span));
    contexts
}

/// Reads a file that decides what commands do, if no other user could have written or replaced it.
///
/// # Errors
/// If it cannot be read, is too large, or another user could have changed it.
pub fn read_limited(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let opened = GivenFile::of(open_given_choice(path)?, PIPE_LIMIT)?;
    opened.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::other("the file is larger than 16 MiB"));
    }
    Ok(text)
}

/// Returns the name of the selected context, if any.
///
/// # Errors
/// If the file exists and cannot be read.
pub fn current_context(path: &Path) -> io::Result<Option<String>> {
    match read_limited(path) {
        Ok(text) => Ok(Some(text.trim().to_owned()).filter(|name| !name.is_empty())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes the name of the selected context. The file is replaced as a whole or not at all.
///
/// # Errors
/// If the file cannot be written.
pub fn set_current_context(path: &Path, name: &str) -> io::Result<()> {
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

struct ConfigReader<'r> {
    text: &'r str,
    directory: &'r Path,
    source: SourceId,
    hidden: Vec<Span>,
    diagnostics: &'r mut Diagnostics,
}

impl ConfigReader<'_> {
    fn span(&self, range: Range<usize>) -> Span {
        SourceMap::span(self.source, range)
    }

    fn error(&mut self, code: Code, message: impl Into<String>, range: Range<usize>, label: &str) {
        let span = self.span(range);
        self.diagnostics.push(Diagnostic::error(code, message).label(span, label));
    }

    /// Reports a syntax error.
    fn syntax(&mut self, error: &toml::de::Error) {
        let range = error.span().unwrap_or(0..0);
        let message = "invalid TOML in the config file";
        self.error(Code::ConfigSyntax, message, range, error.message());
        self.hidden.extend(hidden_values(self.text, self.source));
    }

    fn file(&mut self, file: &Table<'_>) -> ClusterContexts {
        let mut contexts = ClusterContexts::new();
        for (key, value) in file {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("context", DeValue::Table(named)) => self.contexts(named, &mut contexts),
                ("context", _) => self.wrong_type(key, value, "tables `[context.NAME]`"),
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
            let message = format!("context `{}` has no `address`", name.get_ref());
            self.error(Code::ConfigMissingAddress, message, name.span(), "add an `address`");
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
            policy: self.path(keys, "policy"),
            address: self.without_password(keys, address?)?,
        })
    }

    /// Refuses an address with `user:password@`, which is a literal secret.
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
            "the address contains a user or a password: a config file cannot contain secrets";
        self.error(
            Code::ConfigLiteralSecret,
            message,
            value.span(),
            "remove them, and set NOMAD_HTTP_AUTH",
        );
        None
    }

    fn token(&mut self, keys: &Table<'_>) -> Option<(SecretRef, Span)> {
        let (key, value) = entry(keys, "token")?;
        let span = self.span(value.span());
        let DeValue::Table(reference) = value.get_ref() else {
            self.hidden.push(span);
            let message = "a config file cannot contain a token";
            let help = "use `token = { env = \"NAME\" }` or `token = { file = \"PATH\" }`";
            self.diagnostics.push(
                Diagnostic::error(Code::ConfigLiteralSecret, message)
                    .label(self.span(key.span()), "expected a reference")
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
            let message = format!("`{name}` starts with `~`, which only a shell expands");
            self.error(Code::ConfigWrongType, message, value.span(), "use the full path");
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

    fn wrong_type(&mut self, key: &Spanned<DeString<'_>>, value: &Value<'_>, desired: &str) {
        let hidden = self.span(value.span());
        self.hidden.push(hidden);
        let message = format!("`{}` has the wrong type: expected {desired}", key.get_ref());
        self.error(Code::ConfigWrongType, message, key.span(), "");
    }

    /// Reports an unknown key. Its value may be a token under a misspelt key.
    fn unknown(&mut self, key: &Spanned<DeString<'_>>, value: &Value<'_>, known: &[&str]) {
        let hidden = self.span(value.span());
        let is_header = value.span().start <= key.span().start;
        if !is_header {
            self.hidden.push(hidden);
        }
        let word = key.get_ref().as_ref();
        let message = format!(
            "unknown key `{word}` {}",
            if known.len() == 1 { "at the top level" } else { "in a context" }
        );
        let label = closest_match(word, known.iter().copied())
            .map_or_else(|| "no effect".to_owned(), |near| format!("did you mean `{near}`?"));
        self.error(Code::ConfigUnknownKey, message, key.span(), &label);
    }
}

/// Returns what is hidden of a text that is not TOML. Its values may be tokens, so only keys and headers are shown, and nothing
/// of a text with multi-line values.
pub(super) fn hidden_values(text: &str, source: SourceId) -> Vec<Span> {
    let hides_all = text.contains("\"\"\"") || text.contains("'''");
    let mut hidden = vec![];
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let shown = match line.find('=') {
            _ if hides_all => 0,
            Some(at) => at + 1,
            None if line.trim_start().starts_with('[') => line.len(),
            None => 0,
        };
        hidden.push(SourceMap::span(source, start + shown..start + line.len()));
        start += line.len();
    }
    hidden
}

fn entry<'t, 'a>(
    table: &'t Table<'a>,
    name: &str,
) -> Option<(&'t Spanned<DeString<'a>>, &'t Value<'a>)> {
    table.iter().find(|(key, _)| key.get_ref().as_ref() == name)
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    /// Reads the config file at a path, and returns the number of its contexts or the codes of its problems.
    fn read(path: &Path) -> Result<usize, Vec<Code>> {
        let (mut sources, mut problems) = (SourceMap::default(), Diagnostics::default());
        let contexts = read_config(path, &mut sources, &mut problems);
        let codes: Vec<_> = problems.iter().map(|problem| problem.code).collect();
        match codes.is_empty() {
            true => Ok(contexts.map_or(0, |contexts| contexts.len())),
            false => Err(codes),
        }
    }

    /// It names files that are sent to servers that it names.
    #[test]
    fn a_config_file_that_others_could_have_written_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("nomad-csi");
        let (file, context) = (inner.join("config.toml"), inner.join("context"));
        assert_eq!(read(&file), Ok(0));
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(&file, "[context.a]\naddress = \"http://127.0.0.1:1\"\n").unwrap();
        std::fs::write(&context, "a\n").unwrap();
        let set = |path: &Path, mode| {
            std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        };
        let refused = Err(vec![Code::FileNotPrivate]);
        for (file_mode, directory_mode, is_refused) in [
            (0o644, 0o755, false),
            (0o600, 0o700, false),
            (0o666, 0o755, true),
            (0o664, 0o755, true),
            (0o644, 0o777, true),
            (0o644, 0o770, true),
        ] {
            set(&inner, directory_mode);
            for path in [&file, &context] {
                set(path, file_mode);
            }
            let expected = if is_refused { refused.clone() } else { Ok(1) };
            assert_eq!(read(&file), expected, "{file_mode:o} {directory_mode:o}");
            assert_eq!(current_context(&context).is_err(), is_refused);
        }
        set(&inner, 0o700);
        set(&file, 0o600);
        let link = directory.path().join("link.toml");
        symlink(&file, &link).unwrap();
        assert_eq!(read(&link), Ok(1), "a link of this user");
        if rustix::process::geteuid().is_root() {
            let stranger = Some(61_234);
            for foreign in [&file, &inner] {
                chown(foreign, stranger, None).unwrap();
                assert_eq!(read(&file), refused, "{}", foreign.display());
                chown(foreign, Some(0), None).unwrap();
            }
            assert_eq!(read(&file), Ok(1));
        }
    }
}
