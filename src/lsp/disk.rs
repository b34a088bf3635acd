//! Reads the files of a workspace, as commands read those of `-f`.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::uri::plain;
use super::workspace::DiskText;
use nomad_csi_client::files::{
    MAX_VARIABLE_FILES, PIPE_LIMIT, SpecFilesRequest, StreamTexts, read_spec_files,
    read_variable_file,
};
use nomad_csi_model::diagnostic::{Code, Diagnostics, SourceMap};
use nomad_csi_spec::Syntax;

/// What the disk has.
pub(crate) struct ReadDisk {
    pub(crate) texts: BTreeMap<PathBuf, DiskText>,
    pub(crate) variable_files: Vec<PathBuf>,
    /// What cannot be read, in words.
    pub(crate) problems: Vec<String>,
}

/// Reads the specifications that `paths` name and files of variables; relative ones start from `base`.
pub(crate) fn read_disk(base: &Path, paths: &[String], variable_files: &[String]) -> ReadDisk {
    let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
    let streams = StreamTexts::default();
    let mut request = SpecFilesRequest {
        arguments: paths,
        base_directory: base,
        stdin: &mut io::empty(),
        syntax: None,
        pipe_limit: PIPE_LIMIT,
        read_before: &streams,
        shows_only_tree: true,
    };
    let read = read_spec_files(&mut request, &mut sources, &mut diagnostics);
    let mut texts = BTreeMap::new();
    for (source, syntax) in read {
        let path = plain(&base.join(sources.name(source)));
        let is_withheld = sources.is_withheld(source);
        let text = sources.text(source).clone();
        texts.insert(path, DiskText { text, syntax, is_withheld });
    }
    let mut named = vec![];
    for file in variable_files.iter().take(MAX_VARIABLE_FILES) {
        let path = plain(&base.join(file));
        match read_variable_file(base, Path::new(file)) {
            Ok(text) => {
                let syntax = Syntax::from_path(&path).unwrap_or(Syntax::Hcl);
                let text = DiskText { text: text.into(), syntax, is_withheld: false };
                texts.insert(path.clone(), text);
                named.push(path);
            }
            Err(problems) => diagnostics.extend(problems),
        }
    }
    if variable_files.len() > MAX_VARIABLE_FILES {
        let message = format!("only the first {MAX_VARIABLE_FILES} files of variables are read");
        return ReadDisk { texts, variable_files: named, problems: vec![message] };
    }
    // A folder in which nothing is written yet is no problem.
    let shown = diagnostics.iter().filter(|problem| problem.code != Code::FilesNoSpecs);
    let problems = shown.map(|problem| problem.message.clone()).collect();
    ReadDisk { texts, variable_files: named, problems }
}
