//! Limits the pages, entries and bytes of one list, and refuses a repeated page.

use std::collections::HashSet;

use super::limits::{ResponseLimits, limit_size};
use super::request::RequestContext;
use crate::ports::ApiError;

/// The budget of one list.
pub(super) struct ListBudget<'l> {
    limits: &'l ResponseLimits,
    pages: usize,
    items: usize,
    bytes: usize,
    tokens: HashSet<String>,
}

impl<'l> ListBudget<'l> {
    pub(super) fn new(limits: &'l ResponseLimits) -> Self {
        Self { limits, pages: 0, items: 0, bytes: 0, tokens: HashSet::new() }
    }

    /// Counts a page of this many bytes.
    pub(super) fn page(
        &mut self,
        bytes: usize,
        context: RequestContext<'_>,
    ) -> Result<(), ApiError> {
        self.pages += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.limits.list_bytes {
            let limit = limit_size(self.limits.list_bytes);
            return Err(context.above_limit(&format!("more than {limit}"), "list-bytes"));
        }
        Ok(())
    }

    /// Counts an entry.
    pub(super) fn item(&mut self, context: RequestContext<'_>) -> Result<(), ApiError> {
        self.items += 1;
        let limit = self.limits.list_items;
        if self.items > limit {
            return Err(context.above_limit(&format!("more than {limit} entries"), "list-items"));
        }
        Ok(())
    }

    /// Returns the number of entries so far.
    pub(super) fn items(&self) -> usize {
        self.items
    }

    /// Checks that another page may follow. Keeps its token.
    pub(super) fn next(
        &mut self,
        token: &str,
        context: RequestContext<'_>,
    ) -> Result<(), ApiError> {
        let limit = self.limits.list_pages;
        if self.pages >= limit {
            return Err(context.above_limit(&format!("more than {limit} pages"), "list-pages"));
        }
        if !self.tokens.insert(token.to_owned()) {
            let reason = format!("`{}` sent the same page twice", context.server());
            return Err(context.unexpected_response(&reason));
        }
        self.bytes = self.bytes.saturating_add(token.len());
        Ok(())
    }
}
