-- run.db: the audit file of one run. One SQLite file holds the plan, everything sent,
-- everything received, what each answer was read as, and every verdict.
-- Times are UTC, ISO 8601 with milliseconds. Free-form columns hold JSON text.

-- The run: one row. What makes a number what it is.
CREATE TABLE run (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  run_id TEXT NOT NULL CHECK (length(run_id) = 10),          -- 10 hex digits; first part of every custom_id
  name TEXT NOT NULL,                                        -- name of the run folder
  created_at TEXT NOT NULL,
  standing TEXT NOT NULL DEFAULT 'running'
    CHECK (standing IN ('running', 'stopped', 'halted')),    -- stopped: by cancel; halted: by a systematic failure or a refused batch
  standing_reason TEXT,                                      -- why it is stopped or halted, in the provider's words
  benchmark TEXT NOT NULL,                                   -- benchmark module
  protocol TEXT NOT NULL CHECK (protocol IN ('rubric', 'pairwise', 'pointwise', 'generate')),
  dataset TEXT NOT NULL,                                     -- hub id, or file names with their sha256 (JSON array)
  revision TEXT,                                             -- revision of a hub dataset
  subset TEXT,
  split TEXT NOT NULL,
  model_name TEXT NOT NULL,                                  -- the model whose responses are judged
  responses_file TEXT,                                       -- name of the responses file, without its folder
  judge TEXT NOT NULL,                                       -- the deployment that scores
  provider TEXT NOT NULL,
  host TEXT NOT NULL,                                        -- host of the resource; file and batch ids belong to it
  plan_sha256 TEXT NOT NULL,                                 -- over everything that must not change while the run lives
  prompt_sha256 TEXT NOT NULL,                               -- system prompt and template
  schema_sha256 TEXT NOT NULL,                               -- schema the verdicts are checked against
  data_sha256 TEXT NOT NULL,                                 -- the selected items
  responses_sha256 TEXT NOT NULL,                            -- the responses judged
  plan TEXT NOT NULL CHECK (json_valid(plan)),               -- every setting the plan hash covers
  options TEXT NOT NULL CHECK (json_valid(options)),         -- settings that may differ when continuing
  notes TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(notes)),-- what was noticed about the inputs
  versions TEXT NOT NULL CHECK (json_valid(versions)),       -- versions of iwb-batch, Python, SQLite, libraries
  price_input REAL,                                          -- USD per million tokens at batch price; NULL = unknown
  price_cached REAL,
  price_output REAL,
  price_source TEXT                                          -- where the prices come from, with date
) STRICT;

-- Deployments of the one judge. Without --lane a single row with an empty name.
CREATE TABLE lane (
  lane TEXT PRIMARY KEY,                                     -- first part of this lane's remote ids, 'west/batch_1'
  deployment TEXT NOT NULL,                                  -- what request lines of this lane name as model
  host TEXT NOT NULL,
  enqueued_limit INTEGER                                     -- enqueued-token limit learned from a refusal
) STRICT;

-- How often an outcome may be sent again. One row for each outcome that is not 'valid'.
CREATE TABLE policy (
  outcome TEXT PRIMARY KEY,
  budget TEXT NOT NULL,                                      -- outcomes with one budget are counted together
  allowed INTEGER                                            -- further attempts after the first; NULL: never by itself, the request stays open
) STRICT;

-- Benchmark rows of the selection (after --where and --limit).
CREATE TABLE item (
  item_index INTEGER PRIMARY KEY,                            -- the data's index (pairs: row over all files)
  item_id TEXT NOT NULL,                                     -- the data's id, else the index as text
  domain TEXT,
  subdomain TEXT,
  language TEXT,
  variant TEXT,                                              -- native | code_mixed | romanized
  tag TEXT,                                                  -- pairs: the fine-grained genre
  cluster TEXT NOT NULL,                                     -- equal for renderings of one prompt
  query TEXT NOT NULL,                                       -- what the model under test and the judge receive
  criteria TEXT NOT NULL CHECK (json_valid(criteria)),       -- rubric: array of criteria, key order of the data
  extra TEXT NOT NULL CHECK (json_valid(extra)),             -- pairs: the two texts
  sha256 TEXT NOT NULL,                                      -- over the item as judged; compare joins on it
  left_out TEXT,                                             -- why no request was planned: 'missing response', 'empty response', 'no answer'
  notes TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(notes))
) STRICT;
CREATE INDEX item_left_out ON item (left_out) WHERE left_out IS NOT NULL;

-- One model's answers. The text of the file is reasoning || answer.
CREATE TABLE response (
  item_index INTEGER PRIMARY KEY REFERENCES item (item_index),
  reasoning TEXT NOT NULL,                                   -- chain of thought cut off before judging, '' if none
  answer TEXT,                                               -- what the judge sees; NULL when the thoughts never ended
  flags TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(flags)),-- what was noticed while cutting
  line INTEGER,                                              -- 1-based line (or row) of the responses file
  sha256 TEXT NOT NULL
) STRICT;

-- The smallest thing judged.
CREATE TABLE request (
  request_id INTEGER PRIMARY KEY,
  item_index INTEGER NOT NULL REFERENCES item (item_index),
  criterion_index INTEGER,                                   -- from 0; NULL for pairs
  criterion TEXT,                                            -- criterion name
  pair_order TEXT CHECK (pair_order IN ('chosen-first', 'rejected-first')),
  side TEXT CHECK (side IN ('chosen', 'rejected')),          -- pairs scored one text at a time: which text
  repeat INTEGER NOT NULL DEFAULT 1 CHECK (repeat >= 1),
  n_bytes INTEGER NOT NULL DEFAULT 0,                        -- bytes of its first line
  n_tokens INTEGER NOT NULL DEFAULT 0,                       -- input tokens of its prompt, counted or estimated when it was planned
  fresh_from INTEGER NOT NULL DEFAULT 0,                     -- attempts up to this one count against no budget (collect --retry)
  released INTEGER NOT NULL DEFAULT 0                        -- after this attempt another may be sent whatever its outcome (--retry, resume)
) STRICT;
CREATE UNIQUE INDEX request_once
  ON request (item_index, coalesce(criterion_index, -1), coalesce(pair_order, ''), coalesce(side, ''), repeat);

-- Immutable JSONL files under requests/.
CREATE TABLE request_file (
  request_file_id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,                                 -- file name in requests/
  sha256 TEXT NOT NULL,
  n_requests INTEGER NOT NULL CHECK (n_requests > 0),
  n_bytes INTEGER NOT NULL,
  n_tokens INTEGER NOT NULL,                                 -- estimated input tokens, for the enqueued-token limit
  online INTEGER NOT NULL DEFAULT 0 CHECK (online IN (0, 1)),-- 1: its requests were made one by one (collect --finish-online)
  lane TEXT NOT NULL DEFAULT '' REFERENCES lane (lane),      -- the deployment it was written for
  created_at TEXT NOT NULL
) STRICT;

-- A request file at the provider. One row for each intent to create a batch.
CREATE TABLE batch (
  batch_id INTEGER PRIMARY KEY,
  request_file_id INTEGER NOT NULL REFERENCES request_file (request_file_id),
  state TEXT NOT NULL DEFAULT 'planned'
    CHECK (state IN ('planned', 'uploading', 'uploaded', 'creating', 'submitted', 'ended', 'collected', 'dropped')),
  remote_status TEXT,                                        -- the provider's word, verbatim
  remote_batch_id TEXT UNIQUE,
  input_file_id TEXT,
  input_expires_at TEXT,                                     -- NULL: the provider set no expiry, so the file is deleted after collection
  output_file_id TEXT,
  error_file_id TEXT,
  began INTEGER NOT NULL DEFAULT 0 CHECK (began IN (0, 1)),  -- the batch started running at the provider
  count_total INTEGER,                                       -- request_counts as the provider gave them
  count_completed INTEGER,
  count_failed INTEGER,
  created_at TEXT NOT NULL,                                  -- planned
  called_at TEXT,                                            -- last upload or create call began; grace runs from here
  submitted_at TEXT,
  ended_at TEXT,
  collected_at TEXT,
  not_before TEXT,                                           -- back-off: nothing is sent for this batch earlier
  refusals INTEGER NOT NULL DEFAULT 0,                       -- refusals for enqueued tokens so far
  fresh_uploads INTEGER NOT NULL DEFAULT 0,                  -- how often the file was uploaded afresh
  empty_listings INTEGER NOT NULL DEFAULT 0,                 -- complete listings since called_at without this batch
  not_found_polls INTEGER NOT NULL DEFAULT 0,                -- consecutive polls answered 404
  wanting TEXT,                                              -- what its files lack; NULL while nothing was found wanting
  wanting_since TEXT,                                        -- first look that found this lack; --settle runs from here
  wanting_looks INTEGER NOT NULL DEFAULT 0,                  -- passes in a row that found this lack
  error TEXT                                                 -- last refusal or failure, in the provider's words
) STRICT;
-- At most one live batch for each request file.
CREATE UNIQUE INDEX batch_live ON batch (request_file_id) WHERE state <> 'dropped';
CREATE INDEX batch_by_state ON batch (state);

-- The moves a batch may make, and what each one means.
CREATE TABLE batch_transition (
  before TEXT NOT NULL,
  after TEXT NOT NULL,
  means TEXT NOT NULL,
  PRIMARY KEY (before, after)
) STRICT, WITHOUT ROWID;
INSERT INTO batch_transition (before, after, means) VALUES
  ('planned',   'uploading', 'the upload call is about to be made'),
  ('planned',   'dropped',   'given up before anything was sent'),
  ('uploading', 'uploaded',  'the provider has the file (answered, or found by listing)'),
  ('uploading', 'planned',   'the upload was refused, or no file was found'),
  ('uploaded',  'creating',  'the create call is about to be made'),
  ('uploaded',  'planned',   'the uploaded file is unusable; it is uploaded afresh'),
  ('uploaded',  'dropped',   'given up before a batch was created'),
  ('creating',  'submitted', 'the provider has the batch (answered, found by listing, or adopted by the user)'),
  ('creating',  'uploaded',  'the create call was refused, or listings after the grace period show no batch'),
  ('submitted', 'ended',     'the provider says completed, failed, expired or cancelled, or no longer knows the batch'),
  ('ended',     'collected', 'both files are read and every attempt has an outcome'),
  ('collected', 'submitted', 'the provider knows a batch again that was taken for gone'),
  ('ended',     'dropped',   'the provider refused the batch for its queue; the file is sent again');

CREATE TRIGGER batch_moves BEFORE UPDATE OF state ON batch
WHEN NEW.state <> OLD.state
  AND NOT EXISTS (SELECT 1 FROM batch_transition WHERE before = OLD.state AND after = NEW.state)
BEGIN
  SELECT RAISE(ABORT, 'illegal move of a batch');
END;

-- The n-th sending of a request.
CREATE TABLE attempt (
  attempt_id INTEGER PRIMARY KEY,
  request_id INTEGER NOT NULL REFERENCES request (request_id),
  attempt INTEGER NOT NULL CHECK (attempt >= 1),
  custom_id TEXT NOT NULL UNIQUE,                            -- joins answers to attempts; nothing else does
  request_file_id INTEGER NOT NULL REFERENCES request_file (request_file_id),
  line INTEGER NOT NULL,                                     -- 1-based line of the request file
  token_limit INTEGER NOT NULL,                              -- max_completion_tokens of this attempt
  n_tokens INTEGER NOT NULL,                                 -- input tokens, as planned
  changed TEXT,                                              -- how the request differs from the first attempt, NULL if it does not
  UNIQUE (request_id, attempt)
) STRICT;
CREATE INDEX attempt_by_file ON attempt (request_file_id);
CREATE INDEX attempt_changed ON attempt (request_id, attempt) WHERE changed IS NOT NULL;
-- A request never has two attempts without an outcome: it is never sent twice at once.
CREATE TRIGGER attempt_one_open BEFORE INSERT ON attempt
WHEN EXISTS (SELECT 1 FROM attempt a WHERE a.request_id = NEW.request_id
             AND NOT EXISTS (SELECT 1 FROM reading r WHERE r.attempt_id = a.attempt_id))
BEGIN
  SELECT RAISE(ABORT, 'the request has an open attempt');
END;

-- Files under raw/, exactly as downloaded.
CREATE TABLE raw_file (
  raw_file_id INTEGER PRIMARY KEY,
  batch_id INTEGER REFERENCES batch (batch_id),              -- NULL: given with collect --from, may answer several batches
  kind TEXT NOT NULL CHECK (kind IN ('output', 'error', 'given')),
  name TEXT NOT NULL UNIQUE,                                 -- file name in raw/
  remote_file_id TEXT,
  sha256 TEXT NOT NULL,
  n_bytes INTEGER NOT NULL,
  n_lines INTEGER NOT NULL,
  received_at TEXT NOT NULL
) STRICT;

-- Every line that came back, verbatim.
CREATE TABLE raw_line (
  raw_line_id INTEGER PRIMARY KEY,
  raw_file_id INTEGER NOT NULL REFERENCES raw_file (raw_file_id),
  line INTEGER NOT NULL,                                     -- 1-based, split on \n bytes only
  custom_id TEXT,                                            -- NULL when the line could not be read that far
  kind TEXT NOT NULL
    CHECK (kind IN ('answer', 'duplicate', 'unknown', 'unreadable')), -- answer: read for its attempt; others are strays
  text TEXT NOT NULL,                                        -- bytes that are not UTF-8 appear as U+FFFD; the file keeps them
  UNIQUE (raw_file_id, line)
) STRICT;
CREATE INDEX raw_line_by_custom_id ON raw_line (custom_id);
CREATE INDEX raw_line_stray ON raw_line (kind) WHERE kind <> 'answer';

-- What an attempt came to. Never changed; a later reading (reparse, late line) is one more row, and the newest counts.
CREATE TABLE reading (
  reading_id INTEGER PRIMARY KEY,
  attempt_id INTEGER NOT NULL REFERENCES attempt (attempt_id),
  raw_line_id INTEGER REFERENCES raw_line (raw_line_id),     -- NULL: no line came
  at TEXT NOT NULL,
  outcome TEXT NOT NULL CHECK (outcome IN ('valid', 'invalid_json', 'invalid_schema', 'empty', 'refused', 'truncated',
    'filtered', 'rejected', 'transient', 'missing', 'expired', 'not_run', 'cancelled', 'account')),
  detail TEXT,                                               -- what exactly: schema message, filter category, maybe_paid ...
  http_status INTEGER,
  finish_reason TEXT,
  error_code TEXT,
  message TEXT,                                              -- the provider's words
  prompt_tokens INTEGER,
  cached_tokens INTEGER,
  completion_tokens INTEGER,
  reasoning_tokens INTEGER,
  model TEXT,                                                -- model the provider says answered
  system_fingerprint TEXT
) STRICT;
-- What the newest reading of an attempt came to is found in this index alone.
CREATE INDEX reading_newest ON reading (attempt_id, reading_id, outcome);
-- Few in a healthy run: what may have to be sent again is found without looking at every request.
CREATE INDEX reading_not_valid ON reading (attempt_id) WHERE outcome <> 'valid';

-- The texts that readings were read from, apart from them: counting readings touches no text.
CREATE TABLE answer_text (
  reading_id INTEGER PRIMARY KEY REFERENCES reading (reading_id),
  content TEXT NOT NULL                                      -- the message content the verdict was read from
) STRICT;

-- A validated verdict. Exists exactly for readings with outcome 'valid'.
CREATE TABLE judgement (
  reading_id INTEGER PRIMARY KEY REFERENCES reading (reading_id),
  score INTEGER CHECK (score BETWEEN 1 AND 10),
  preferred TEXT CHECK (preferred IN ('chosen', 'rejected')),
  reason TEXT NOT NULL,
  notes TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(notes)) -- what was unwrapped or noticed
) STRICT;
-- Numbers of a large run need the scores and not the texts beside them.
CREATE INDEX judgement_score ON judgement (reading_id, score);

-- What happened, in order. Append-only.
CREATE TABLE event (
  event_id INTEGER PRIMARY KEY,
  at TEXT NOT NULL,
  kind TEXT NOT NULL,
  batch_id INTEGER REFERENCES batch (batch_id),
  detail TEXT
) STRICT;
CREATE TRIGGER event_kept_update BEFORE UPDATE ON event BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER event_kept_delete BEFORE DELETE ON event BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER batch_moved AFTER UPDATE OF state ON batch WHEN NEW.state <> OLD.state
BEGIN
  INSERT INTO event (at, kind, batch_id, detail)
  VALUES (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), 'batch_' || NEW.state, NEW.batch_id, NEW.error);
END;

-- Counts over the whole run, so that a look at a large run need not count it again. A count holds as long as no row
-- was added to what it rests on; changing or deleting one, or a count itself, empties the table. (A trigger for each
-- added row would make storing answers a third slower.) The view kept_count shows those that hold.
CREATE TABLE kept (
  name TEXT PRIMARY KEY,                                     -- what was counted
  value TEXT NOT NULL CHECK (json_valid(value)),             -- what counting gave (JSON)
  last_request INTEGER,                                      -- newest request when it was counted
  last_attempt INTEGER,                                      -- newest attempt when it was counted
  last_reading INTEGER                                       -- newest reading when it was counted
) STRICT;
CREATE TRIGGER kept_update AFTER UPDATE ON kept BEGIN DELETE FROM kept; END;
CREATE TRIGGER kept_request_update AFTER UPDATE ON request BEGIN DELETE FROM kept; END;
CREATE TRIGGER kept_request_delete AFTER DELETE ON request BEGIN DELETE FROM kept; END;
CREATE TRIGGER kept_request_file_update AFTER UPDATE ON request_file BEGIN DELETE FROM kept; END;
CREATE TRIGGER kept_request_file_delete AFTER DELETE ON request_file BEGIN DELETE FROM kept; END;
CREATE TRIGGER kept_attempt_update AFTER UPDATE ON attempt BEGIN DELETE FROM kept; END;
CREATE TRIGGER kept_attempt_delete AFTER DELETE ON attempt BEGIN DELETE FROM kept; END;
CREATE TRIGGER kept_reading_update AFTER UPDATE ON reading BEGIN DELETE FROM kept; END;
CREATE TRIGGER kept_reading_delete AFTER DELETE ON reading BEGIN DELETE FROM kept; END;
CREATE TRIGGER kept_policy_insert AFTER INSERT ON policy BEGIN DELETE FROM kept; END;
CREATE TRIGGER kept_policy_update AFTER UPDATE ON policy BEGIN DELETE FROM kept; END;
CREATE TRIGGER kept_policy_delete AFTER DELETE ON policy BEGIN DELETE FROM kept; END;
CREATE TRIGGER kept_run_update AFTER UPDATE OF price_input, price_cached, price_output ON run BEGIN DELETE FROM kept; END;

-- ---------------------------------------------------------------- views

-- Each attempt with its newest reading (all reading columns NULL while it is open).
CREATE VIEW attempt_reading AS
SELECT a.attempt_id, a.request_id, a.attempt, a.custom_id, a.request_file_id, a.line, a.token_limit, a.n_tokens, a.changed,
       r.reading_id, r.raw_line_id, r.outcome, r.detail, r.http_status, r.finish_reason, r.error_code, r.message,
       (SELECT t.content FROM answer_text t WHERE t.reading_id = r.reading_id) AS content,
       r.prompt_tokens, r.cached_tokens, r.completion_tokens, r.reasoning_tokens, r.model, r.system_fingerprint
FROM attempt a
LEFT JOIN reading r ON r.reading_id = (SELECT max(n.reading_id) FROM reading n WHERE n.attempt_id = a.attempt_id);

-- Each request's judgement: that of its lowest valid attempt.
-- Looked up request by request, so that asking for one item reads one item.
CREATE VIEW verdict AS
SELECT q.request_id, a.attempt, a.attempt_id, a.custom_id,
       (SELECT max(r.reading_id) FROM reading r WHERE r.attempt_id = a.attempt_id) AS reading_id
FROM request q
JOIN attempt a ON a.attempt_id = (
  SELECT v.attempt_id FROM attempt v
  WHERE v.request_id = q.request_id AND 'valid' = (
    SELECT n.outcome FROM reading n WHERE n.attempt_id = v.attempt_id ORDER BY n.reading_id DESC LIMIT 1)
  ORDER BY v.attempt LIMIT 1);

-- Where each request stands. scored: it has a judgement. failed: its budget is spent. open: everything else.
-- t is the last planned attempt, l the newest reading of the last attempt that has one.
CREATE VIEW request_status AS
SELECT q.request_id, i.item_id, q.item_index, q.criterion_index, q.criterion, q.pair_order, q.repeat,
       CASE
         WHEN EXISTS (SELECT 1 FROM verdict v WHERE v.request_id = q.request_id) THEN 'scored'
         WHEN l.reading_id IS NULL OR l.attempt_id <> t.attempt_id THEN 'open'
         WHEN t.attempt <= q.released THEN 'open'
         WHEN l.outcome = 'missing' AND l.detail = 'gone' THEN 'failed'
         WHEN p.allowed IS NULL THEN 'open'
         WHEN (SELECT count(*) FROM attempt_reading s JOIN policy sp ON sp.outcome = s.outcome
               WHERE s.request_id = q.request_id AND s.attempt > q.fresh_from AND sp.budget = p.budget
                 AND NOT (s.outcome = 'not_run' AND s.detail = 'split')) > p.allowed THEN 'failed'
         ELSE 'open'
       END AS status,
       coalesce(t.attempt, 0) AS attempts,
       l.outcome AS last_outcome,
       t.custom_id,
       q.side
FROM request q
JOIN item i ON i.item_index = q.item_index
LEFT JOIN attempt t ON t.attempt_id = (
  SELECT a.attempt_id FROM attempt a WHERE a.request_id = q.request_id ORDER BY a.attempt DESC LIMIT 1)
LEFT JOIN reading l ON l.reading_id = (
  SELECT (SELECT max(n.reading_id) FROM reading n WHERE n.attempt_id = a.attempt_id) AS newest
  FROM attempt a WHERE a.request_id = q.request_id AND newest IS NOT NULL ORDER BY a.attempt DESC LIMIT 1)
LEFT JOIN policy p ON p.outcome = l.outcome;

-- Requests that were never sent or once ended badly: all that may have to be sent, or may have failed. The others
-- were sent once and are under way or scored. Looking only at these keeps a pass over a large run short.
CREATE VIEW undecided AS
SELECT q.request_id FROM request q WHERE NOT EXISTS (SELECT 1 FROM attempt a WHERE a.request_id = q.request_id)
UNION
SELECT a.request_id FROM reading r JOIN attempt a ON a.attempt_id = r.attempt_id WHERE r.outcome <> 'valid';

-- Requests that get another attempt without anybody's doing: open, nothing of them under way, and either the policy of
-- their last outcome has a number or somebody has released them.
CREATE VIEW to_send AS
SELECT s.request_id
FROM request_status s
JOIN request q ON q.request_id = s.request_id
LEFT JOIN policy p ON p.outcome = s.last_outcome
WHERE s.request_id IN (SELECT request_id FROM undecided) AND s.status = 'open'
  AND (p.allowed IS NOT NULL OR s.attempts <= q.released)
  AND NOT EXISTS (SELECT 1 FROM attempt_reading a WHERE a.request_id = s.request_id AND a.outcome IS NULL);

-- One row for each scored rubric request.
CREATE VIEW score AS
SELECT i.item_id, i.item_index, i.domain, i.subdomain, i.language, i.variant,
       q.criterion_index, q.criterion, q.repeat, j.score, j.reason, v.custom_id
FROM verdict v
JOIN judgement j INDEXED BY judgement_score ON j.reading_id = v.reading_id
JOIN request q ON q.request_id = v.request_id
JOIN item i ON i.item_index = q.item_index
WHERE j.score IS NOT NULL AND q.side IS NULL;

-- One row for every item. score is NULL unless every planned request is scored;
-- score_partial is the mean over what there is. Repeats are averaged before criteria.
CREATE VIEW item_score AS
WITH planned AS (SELECT item_index, count(*) AS n FROM request GROUP BY item_index),
criterion_mean AS (
  SELECT item_index, criterion_index, avg(score) AS score, count(*) AS n, sum(score) AS total
  FROM score GROUP BY item_index, criterion_index),
scored AS (SELECT item_index, avg(score) AS score, sum(n) AS n, sum(total) AS total FROM criterion_mean GROUP BY item_index)
SELECT i.item_id, i.item_index, i.domain, i.subdomain, i.language, i.variant,
       CASE WHEN s.n = p.n THEN s.score END AS score,
       s.score AS score_partial,
       coalesce(s.n, 0) AS n_scored,
       coalesce(p.n, 0) AS n_planned,
       coalesce(s.total, 0) AS score_sum
FROM item i
LEFT JOIN planned p ON p.item_index = i.item_index
LEFT JOIN scored s ON s.item_index = i.item_index;

-- One row for each judged pair and order.
CREATE VIEW preference AS
SELECT i.item_id, i.item_index, i.tag, i.domain, i.language, q.pair_order, q.repeat,
       j.preferred, CAST(j.preferred = 'chosen' AS INTEGER) AS correct, j.reason, v.custom_id
FROM verdict v
JOIN judgement j ON j.reading_id = v.reading_id
JOIN request q ON q.request_id = v.request_id
JOIN item i ON i.item_index = q.item_index
WHERE j.preferred IS NOT NULL;

-- One row for each scored text of a pair, where the texts are scored one at a time.
CREATE VIEW side_score AS
SELECT i.item_id, i.item_index, i.tag, i.domain, i.language, q.side, q.repeat, j.score, j.reason, v.custom_id
FROM verdict v
JOIN judgement j ON j.reading_id = v.reading_id
JOIN request q ON q.request_id = v.request_id
JOIN item i ON i.item_index = q.item_index
WHERE q.side IS NOT NULL AND j.score IS NOT NULL;

-- Every attempt with what came of it.
CREATE VIEW attempt_log AS
SELECT a.custom_id, a.request_id, a.attempt, a.outcome, a.detail, a.http_status, a.finish_reason, a.error_code, a.content,
       a.prompt_tokens, a.cached_tokens, a.completion_tokens, a.reasoning_tokens, a.model,
       (SELECT max(b.batch_id) FROM batch b WHERE b.request_file_id = a.request_file_id) AS batch_id,
       f.name AS request_file, a.message, a.system_fingerprint, a.token_limit, a.changed
FROM attempt_reading a
JOIN request_file f ON f.request_file_id = a.request_file_id;

-- Every batch.
CREATE VIEW batch_log AS
SELECT b.batch_id, f.name AS request_file, b.state, b.remote_status, b.remote_batch_id, f.n_requests,
       b.created_at, b.submitted_at, b.ended_at, b.collected_at, b.error
FROM batch b JOIN request_file f ON f.request_file_id = b.request_file_id;

-- Requests whose budget is spent, with the last thing that went wrong.
CREATE VIEW failure AS
SELECT s.request_id, s.item_id, s.item_index, s.criterion_index, s.pair_order, s.repeat,
       a.outcome, a.detail, a.error_code, a.message, s.attempts, s.side
FROM request_status s
JOIN attempt_reading a ON a.request_id = s.request_id AND a.attempt = s.attempts
WHERE s.request_id IN (SELECT request_id FROM undecided) AND s.status = 'failed';

-- Tokens and cost by what they bought. good: the answer behind a judgement. resubmitted: an answer that was asked for again.
-- wasted: an answer that led to nothing. unknown: no token counts came back; its cost is unknown, never 0.
CREATE VIEW usage AS
WITH classed AS (
  SELECT CASE
           WHEN a.prompt_tokens IS NULL THEN 'unknown'
           WHEN a.attempt = 1 AND a.outcome = 'valid' THEN 'good'
           WHEN a.attempt_id = (SELECT v.attempt_id FROM verdict v WHERE v.request_id = a.request_id) THEN 'good'
           WHEN a.outcome <> 'valid' AND EXISTS (SELECT 1 FROM attempt n WHERE n.request_id = a.request_id AND n.attempt > a.attempt)
             THEN 'resubmitted'
           ELSE 'wasted'
         END AS class,
         a.prompt_tokens, a.cached_tokens, a.completion_tokens, a.reasoning_tokens,
         1 + f.online AS price_factor  -- the online price is twice the batch price
  FROM attempt_reading a JOIN request_file f ON f.request_file_id = a.request_file_id
  WHERE a.outcome IS NOT NULL)
SELECT c.class, count(*) AS attempts,
       sum(c.prompt_tokens) AS prompt_tokens, sum(c.cached_tokens) AS cached_tokens,
       sum(c.completion_tokens) AS completion_tokens, sum(c.reasoning_tokens) AS reasoning_tokens,
       CASE WHEN c.class <> 'unknown' THEN
         sum(c.price_factor * ((c.prompt_tokens - coalesce(c.cached_tokens, 0)) * r.price_input
           + coalesce(c.cached_tokens, 0) * coalesce(r.price_cached, r.price_input)
           + c.completion_tokens * r.price_output)) / 1000000.0
       END AS cost_usd
FROM classed c CROSS JOIN run r
GROUP BY c.class;

-- The newest row of each table that counts rest on.
CREATE VIEW newest AS
SELECT (SELECT max(request_id) FROM request) AS last_request,
       (SELECT max(attempt_id) FROM attempt) AS last_attempt,
       (SELECT max(reading_id) FROM reading) AS last_reading;

-- Kept counts that hold.
CREATE VIEW kept_count AS
SELECT k.name, k.value
FROM kept k
JOIN newest n ON (n.last_request, n.last_attempt, n.last_reading) IS (k.last_request, k.last_attempt, k.last_reading);

-- What happened, in order.
CREATE VIEW event_log AS
SELECT event_id, at, kind, batch_id, detail FROM event;
