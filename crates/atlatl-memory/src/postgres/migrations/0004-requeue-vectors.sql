-- Queues memories once more that are stored as "no vector can be made". Version 0.1.0 stored any failure
-- of an embedder so, a rate limit included. It changes rows only.

DELETE FROM atlatl.vector WHERE cardinality(vector) = 0;
