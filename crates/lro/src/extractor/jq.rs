//! Runs jq filters.

use lro_query::Cancel;
use lro_spool::StoredResult;

use super::Extractor;
use crate::extract_error::ExtractError;
use crate::query::{Query, Reply, Values};

impl Extractor {
    /// Runs a filter on each record, on the array of all records, or on a document.
    #[cfg_attr(
        not(feature = "jq"),
        expect(unused_variables, clippy::unused_self, reason = "the engine is not compiled in")
    )]
    pub(super) fn jq(
        &self,
        stored: &dyn StoredResult,
        query: &Query,
        filter: &str,
        whole: bool,
        values: &Values,
        cancel: &Cancel,
    ) -> Result<Reply, ExtractError> {
        #[cfg(feature = "jq")]
        if let Some((workers, limits)) = &self.workers {
            let params = crate::query_source::params(values)?;
            let run =
                run::JqRun { extractor: self, workers, limits, stored, query, params, cancel };
            return run.reply(filter, whole);
        }
        Err(ExtractError::NotOffered { way: "jq" })
    }
}

#[cfg(feature = "jq")]
mod run {
    use lro_query::jq::JqQuery;
    use lro_query::worker::Workers;
    use lro_query::{
        Answer, Cancel, Limits, QueryError, QueryParams, QueryRequest, RecordLayout, Source,
        UnknownField,
    };
    use lro_spool::{StoredForm, StoredResult, records_offset};
    use serde_json::json;

    use super::Extractor;
    use crate::extract_error::ExtractError;
    use crate::query::{Query, QueryTarget, Reply, ReplyUnit};
    use crate::query_source::{
        Owned, Text, has_records, is_json, line_records, original_document, original_text,
        read_all, records_path, selected_text, source, text_records,
    };
    use crate::repair::jq::{self, MAX_REPAIRS};
    use crate::repair::{FieldPaths, Repair, normalized};

    /// A run of a filter, with corrections.
    pub(super) struct JqRun<'a> {
        pub(super) extractor: &'a Extractor,
        pub(super) workers: &'a Workers,
        pub(super) limits: &'a Limits,
        pub(super) stored: &'a dyn StoredResult,
        pub(super) query: &'a Query,
        pub(super) params: QueryParams,
        pub(super) cancel: &'a Cancel,
    }

    /// The input of a filter.
    struct JqData<'a> {
        /// Instead of the stored records.
        text: Option<Text<'a>>,
        layout: RecordLayout,
    }

    impl JqData<'_> {
        fn lines(text: &[u8]) -> Self {
            let text: Text<'static> = Box::new(Owned(line_records(text)));
            JqData { text: Some(text), layout: RecordLayout::Lines }
        }

        fn source<'s>(&'s self, stored: &'s dyn StoredResult) -> Result<Source<'s>, ExtractError> {
            match (&self.text, self.layout) {
                (Some(text), RecordLayout::Lines) => Ok(Source::lines(&**text, 0)),
                (Some(text), RecordLayout::Document) => Ok(Source::document(&**text)),
                (None, _) => source(stored, None),
            }
        }
    }

    impl<'a> JqRun<'a> {
        /// Runs the filter, without its typical mistakes.
        pub(super) fn reply(&self, filter: &str, whole: bool) -> Result<Reply, ExtractError> {
            let mut filter = filter.to_owned();
            let mut notes = Vec::new();
            while notes.len() < MAX_REPAIRS
                && let Some(repair) = jq::before_run(&filter)
            {
                notes.push(repair.note());
                filter = repair.text;
            }
            let data = self.data()?;
            while notes.len() < MAX_REPAIRS
                && data.layout == RecordLayout::Lines
                && let Some(repair) = jq::other_type(&filter, || self.fields(&data))?
            {
                notes.push(repair.note());
                filter = repair.text;
            }
            let mut result = self.run_on(&data, &filter, whole);
            while notes.len() < MAX_REPAIRS
                && let Err(ExtractError::Query(QueryError::Syntax { message, .. })) = &result
                && let Some(repair) = self.after_refusal(&data, &filter, message)?
            {
                notes.push(repair.note());
                filter = repair.text;
                result = self.run_on(&data, &filter, whole);
            }
            let mut reply = result?;
            notes.append(&mut reply.notes);
            reply.notes = notes;
            Ok(reply)
        }

        /// Corrects a filter that jq refused with `message`.
        fn after_refusal(
            &self,
            data: &JqData<'_>,
            filter: &str,
            message: &str,
        ) -> Result<Option<Repair>, ExtractError> {
            if let Some(repair) = jq::after_refusal(filter) {
                return Ok(Some(repair));
            }
            if data.layout == RecordLayout::Document {
                return Ok(None);
            }
            Ok(jq::without_dot(filter, message, &self.fields(data)?))
        }

        /// The input that the query selects.
        fn data(&self) -> Result<JqData<'a>, ExtractError> {
            let is_original =
                self.query.part.unwrap_or(0) == 0 && self.query.target == QueryTarget::Original;
            if is_original {
                if let Some(text) = original_document(self.stored)? {
                    return Ok(JqData { text: Some(text), layout: RecordLayout::Document });
                }
                return match self.stored.listed().sidecar.content {
                    StoredForm::Lines => {
                        let text = Some(original_text(self.stored)?);
                        Ok(JqData { text, layout: RecordLayout::Lines })
                    }
                    StoredForm::Text => Ok(JqData::lines(&read_all(self.stored)?)),
                    _ => Err(ExtractError::OriginalIsText),
                };
            }
            if let Some(text) = selected_text(self.stored, self.query)? {
                let text = read_all(&*text)?;
                if is_json(&text) {
                    let text: Text<'a> = Box::new(Owned(text));
                    return Ok(JqData { text: Some(text), layout: RecordLayout::Document });
                }
                return Ok(JqData::lines(&text));
            }
            let text = text_records(self.stored)?.map(|lines| Box::new(Owned(lines)) as Text<'a>);
            let is_lines = text.is_some() || has_records(self.stored);
            let layout = if is_lines { RecordLayout::Lines } else { RecordLayout::Document };
            Ok(JqData { text, layout })
        }

        fn run_on(
            &self,
            data: &JqData<'_>,
            filter: &str,
            whole: bool,
        ) -> Result<Reply, ExtractError> {
            let run = |query: JqQuery| self.run(query, data.source(self.stored)?);
            if data.layout == RecordLayout::Document {
                let answer = run(JqQuery::each(filter))?;
                return Ok(self.finish(filter, &answer));
            }
            if whole {
                let (filter, notes) = self.with_names_of_records(data, filter)?;
                let mut reply = self.finish(&filter, &run(JqQuery::whole(&filter))?);
                reply.notes.extend(notes);
                return Ok(reply);
            }
            if jq::is_for_maps(filter)
                && let Some(reply) = self.on_map(filter)?
            {
                return Ok(reply);
            }
            if self.reads_a_member(filter)
                && let Some(reply) = self.on_original(filter)?
            {
                return Ok(reply);
            }
            let answer = run(JqQuery::each(filter));
            // g18: a filter over the array (`map`, `group_by`, `.[] | …`) fails on every record.
            let only_failed = match &answer {
                Ok(answer) => answer.failed.is_some() && answer.total == Some(0),
                Err(ExtractError::Query(QueryError::Runtime { .. })) => true,
                Err(_) => false,
            };
            // An element of an object is null.
            let only_failed = only_failed
                || (jq::begins_with_index(filter) && self.fields(data)?.top().next().is_some());
            if only_failed && let Some(reply) = self.after_failure(data, filter)? {
                return Ok(reply);
            }
            let answer = answer?;
            if !answer.unknown_fields.is_empty()
                && let Some(reply) = self.on_original(filter)?
            {
                return Ok(reply);
            }
            if let Some(reply) = self.with_same_fields(data, filter, &answer.unknown_fields)? {
                return Ok(reply);
            }
            // A filter for strings (`select(contains("x"))`) is false for each object.
            if answer.total == Some(0)
                && self.fields(data)?.are_lines()
                && let Some(reply) = self.on_text(data, filter)?
            {
                return Ok(reply);
            }
            let mut reply = self.finish(filter, &answer);
            if jq::is_for_arrays(filter) {
                let call = format!("query={}, whole=true", json!(filter));
                let call = self.extractor.call(self.stored, &call);
                let each = "the filter ran on each record; for the array of all records:";
                reply.notes.push(format!("{each} {call}"));
            }
            Ok(reply)
        }

        /// Other ways to run a filter that failed and returned nothing.
        fn after_failure(
            &self,
            data: &JqData<'_>,
            filter: &str,
        ) -> Result<Option<Reply>, ExtractError> {
            let run = |query: JqQuery| -> Result<Option<Answer>, ExtractError> {
                let answer = self.run(query, data.source(self.stored)?);
                Ok(answer.ok().filter(|answer| {
                    answer.failed.is_none() && answer.given > 0 && answer.unknown_fields.is_empty()
                }))
            };
            let over_all = "the filter ran once on the array of all records, as with whole=true";
            if self.fields(data)?.are_lines()
                && let Some(reply) = self.on_text(data, filter)?
            {
                return Ok(Some(reply));
            }
            let (renamed, mut notes) = self.with_names_of_records(data, filter)?;
            if let Some(answer) = run(JqQuery::whole(&renamed))? {
                notes.push(over_all.to_owned());
                return Ok(Some(self.with_note(&renamed, &answer, notes.join("; "))));
            }
            if let Some(reply) = self.on_original(filter)? {
                return Ok(Some(reply));
            }
            if let Some(over_array) = jq::over_the_array(filter)
                && let Some(answer) = run(JqQuery::whole(over_array))?
            {
                return Ok(Some(self.with_note(filter, &answer, over_all.to_owned())));
            }
            if let Some(repair) = jq::iterate_arrays(filter, &self.fields(data)?)
                && let Some(answer) = run(JqQuery::each(&repair.text))?
            {
                return Ok(Some(self.with_note(&repair.text, &answer, repair.note())));
            }
            Ok(None)
        }

        /// The filter with names as the records have them.
        fn with_names_of_records(
            &self,
            data: &JqData<'_>,
            filter: &str,
        ) -> Result<(String, Vec<String>), ExtractError> {
            let fields = self.fields(data)?;
            let (mut filter, mut notes) = (filter.to_owned(), Vec::new());
            while notes.len() < MAX_REPAIRS
                && let Some(repair) = jq::same_fields(&filter, &fields)
            {
                notes.push(repair.note());
                filter = repair.text;
            }
            notes.dedup();
            Ok((filter, notes))
        }

        /// Runs the filter on the map that the records are from.
        fn on_map(&self, filter: &str) -> Result<Option<Reply>, ExtractError> {
            let sidecar = &self.stored.listed().sidecar;
            let is_data = self.query.part.unwrap_or(0) == 0;
            if sidecar.content != StoredForm::Map || !is_data {
                return Ok(None);
            }
            let path = sidecar.envelope.as_ref().map(records_path).unwrap_or_default();
            let steps: Vec<String> = path.iter().map(|name| format!("[{}]", json!(name))).collect();
            let on_map = format!(".{} | {filter}", steps.concat());
            let Some(original) = original_document(self.stored)? else { return Ok(None) };
            let answer = self.run(JqQuery::each(on_map), Source::document(&*original));
            let answer = answer.ok().filter(|answer| answer.failed.is_none());
            let note = "the filter ran on the map that the records are from";
            Ok(answer.map(|answer| self.with_note(filter, &answer, note.to_owned())))
        }

        /// Runs a filter for strings on the lines of a text, or on the text as one string.
        fn on_text(&self, data: &JqData<'_>, filter: &str) -> Result<Option<Reply>, ExtractError> {
            let answered = |answer: Result<Answer, ExtractError>| {
                answer.ok().filter(|answer| answer.failed.is_none() && answer.given > 0)
            };
            // A filter with line breaks is for the whole text.
            if filter.contains("\\n") {
                let selected = selected_text(self.stored, self.query)?;
                let text = match selected {
                    Some(text) => read_all(&*text)?,
                    None => read_all(&*original_text(self.stored)?)?,
                };
                let text = json!(String::from_utf8_lossy(&text)).to_string();
                let text = Owned(text.into_bytes());
                let answer = self.run(JqQuery::each(filter), Source::document(&text));
                if let Some(answer) = answered(answer) {
                    let note = "the filter ran on the text as one string";
                    return Ok(Some(self.with_note(filter, &answer, note.to_owned())));
                }
            }
            let on_lines = format!(".text | {filter}");
            let answer = self.run(JqQuery::each(&on_lines), data.source(self.stored)?);
            let note = "the filter ran on the text of each line";
            Ok(answered(answer).map(|answer| self.with_note(&on_lines, &answer, note.to_owned())))
        }

        /// Runs the filter with fields whose names differ from unknown ones in case and underscores only.
        fn with_same_fields(
            &self,
            data: &JqData<'_>,
            filter: &str,
            unknown: &[UnknownField],
        ) -> Result<Option<Reply>, ExtractError> {
            let mut text = filter.to_owned();
            let mut changes = Vec::new();
            for field in unknown {
                let name = normalized(&field.name);
                let same = field.near.iter().find(|near| normalized(near) == name);
                let Some(same) = same else { return Ok(None) };
                let Some(changed) = jq::with_field(&text, &field.name, same) else {
                    return Ok(None);
                };
                changes.push(format!("{} is read as {}", json!(field.name), json!(same)));
                text = changed;
            }
            if changes.is_empty() {
                return Ok(None);
            }
            let answer = self.run(JqQuery::each(&text), data.source(self.stored)?);
            let answer = answer.ok().filter(|answer| answer.unknown_fields.is_empty());
            Ok(answer.map(|answer| self.with_note(&text, &answer, changes.join(", "))))
        }

        /// Whether the first field of the filter is a member of the original document and no field of
        /// a record.
        fn reads_a_member(&self, filter: &str) -> bool {
            let sidecar = &self.stored.listed().sidecar;
            let Some(envelope) = &sidecar.envelope else { return false };
            let Some(name) = jq::first_field(filter) else { return false };
            let is_member = lro_json::Members::new(envelope.json.as_bytes())
                .into_iter()
                .flatten()
                .map_while(Result::ok)
                .any(|(member, _)| lro_json::string_equals(member, &name));
            // The member of the records is the most likely one.
            let leads_to_records = records_path(envelope).first() == Some(&name);
            (is_member || leads_to_records)
                && records_offset(self.stored)
                    .and_then(|begin| FieldPaths::read(self.stored, begin))
                    .is_ok_and(|fields| fields.top().all(|field| *field != name))
        }

        /// Runs the filter on the original document, if it has an answer there.
        fn on_original(&self, filter: &str) -> Result<Option<Reply>, ExtractError> {
            if self.query.part.unwrap_or(0) > 0 || !has_records(self.stored) {
                return Ok(None);
            }
            let Some(original) = original_document(self.stored)? else { return Ok(None) };
            let answer = self.run(JqQuery::each(filter), Source::document(&*original));
            let answer = answer.ok().filter(|answer| {
                answer.failed.is_none() && answer.unknown_fields.is_empty() && answer.given > 0
            });
            let note = "the filter ran on the original document, which has these fields";
            Ok(answer.map(|answer| self.with_note(filter, &answer, note.to_owned())))
        }

        fn fields(&self, data: &JqData<'_>) -> Result<FieldPaths, ExtractError> {
            Ok(match &data.text {
                Some(text) => FieldPaths::read(&**text, 0)?,
                None => FieldPaths::read(self.stored, records_offset(self.stored)?)?,
            })
        }

        fn run(&self, query: JqQuery, source: Source<'_>) -> Result<Answer, ExtractError> {
            let query = query.params(self.params.clone());
            let request = QueryRequest::jq(&query, source).page(self.query.page);
            Ok(self.workers.run(&request, self.limits, self.cancel)?)
        }

        fn with_note(&self, filter: &str, answer: &Answer, note: String) -> Reply {
            let mut reply = self.finish(filter, answer);
            reply.notes.push(note);
            reply
        }

        fn finish(&self, filter: &str, answer: &Answer) -> Reply {
            let page = self.query.page;
            let mut reply = self.extractor.worker_reply(answer, ReplyUnit::Values, page);
            for field in &answer.unknown_fields {
                reply.notes.push(self.unknown_field(filter, field));
            }
            Extractor::note_if_empty(&mut reply, self.stored, self.query, answer.records_read);
            reply
        }

        /// The note about an unknown field, with the filter that has the most similar one.
        fn unknown_field(&self, filter: &str, field: &UnknownField) -> String {
            let name = json!(field.name);
            let [first, ..] = field.near.as_slice() else { return format!("unknown field {name}") };
            let near = json!(field.near).to_string();
            let near = near.trim_matches(['[', ']']);
            match jq::with_field(filter, &field.name, first) {
                Some(filter) => {
                    let call =
                        self.extractor.call(self.stored, &format!("query={}", json!(filter)));
                    format!("unknown field {name}: nearest {near}, as in {call}")
                }
                None => format!("unknown field {name}: nearest {near}"),
            }
        }
    }
}
