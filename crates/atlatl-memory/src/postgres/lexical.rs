//! Full-text search of a store: which index answers, and its maintenance before.

use mif::Memory;

use super::crud::WordsColumn;
use super::pool::{read_transaction, write_transaction};
use super::recall::{Freshness, LexicalQuery, MAX_INLINE_BACKLOG, Recall};
use super::session::Access;
use super::{PostgresStore, crud, lexemes, recall, search_index};
use crate::store::{Matches, StoreError};

impl PostgresStore {
    /// Finds the matches of a query, and reads the `first` of them. An index that is behind is brought
    /// up to date before.
    pub(super) async fn find(
        &self,
        query: LexicalQuery<'_>,
        first: usize,
    ) -> Result<(Matches, Vec<Memory>), StoreError> {
        let (pool, tenant) = (self.pool().await?, &self.tenant);
        let mut freshness = Freshness::Required;
        loop {
            let answer = read_transaction!(pool, &tenant.name, Access::Recall, |db| {
                match recall::recall(db, tenant, query, freshness).await? {
                    Recall::Found(matches) => {
                        let read = crud::get_all(db, tenant, &matches.first(first)).await?;
                        Ok(Ok((matches, read)))
                    }
                    other => Ok(Err(other)),
                }
            })?;
            // Without a number of documents to index, only words are counted.
            let (documents, next) = match answer {
                Ok(found) => return Ok(found),
                Err(Recall::Backlogged) => {
                    let words = self.database.words_column();
                    if words == WordsColumn::Present {
                        let found = self.find_by_lexemes(query, first).await;
                        if !self.database.notice_dropped_words(words, &found) {
                            return found;
                        }
                    }
                    (Some(search_index::FILL_BATCH_LEN), Freshness::Indexed)
                }
                Err(Recall::Truncated) => (None, Freshness::Any),
                Err(_) => (Some(MAX_INLINE_BACKLOG), Freshness::Any),
            };
            write_transaction!(pool, &tenant.name, |db| match documents {
                Some(most) => search_index::advance(db, tenant, most).await,
                None => search_index::recount(db, tenant).await,
            })?;
            freshness = next;
        }
    }

    /// Finds the matches of a query by the words of previous servers.
    async fn find_by_lexemes(
        &self,
        query: LexicalQuery<'_>,
        first: usize,
    ) -> Result<(Matches, Vec<Memory>), StoreError> {
        let LexicalQuery { terms, filter, limit, now } = query;
        read_transaction!(self.pool().await?, &self.tenant.name, Access::by(filter), |db| {
            let condition = self.condition(filter, now);
            let matches = lexemes::lexical(db, &self.tenant, terms, condition, limit).await?;
            let read = crud::get_all(db, &self.tenant, &matches.first(first)).await?;
            Ok((matches, read))
        })
    }
}
