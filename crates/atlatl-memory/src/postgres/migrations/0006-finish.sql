-- Drops what migration 0006 replaced, when no server of an older version is connected. It is no migration of its own:
-- servers of version 6 work before and after it.
DROP TRIGGER note ON atlatl.document;
DROP FUNCTION atlatl.note_documents, atlatl.found, atlatl.frequencies;
DROP INDEX atlatl.document_words;
ALTER TABLE atlatl.document DROP COLUMN words, DROP COLUMN length;
