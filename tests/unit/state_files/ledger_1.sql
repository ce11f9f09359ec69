BEGIN TRANSACTION;
CREATE TABLE dpcalib_budgets (
	name TEXT NOT NULL, 
	parent TEXT, 
	dataset TEXT NOT NULL, 
	form TEXT NOT NULL, 
	spent TEXT NOT NULL, 
	reserved TEXT NOT NULL, 
	entries BIGINT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "dpcalib_budgets" VALUES('all',NULL,'salaries','{"schema": "dpcalib.budget/1", "epsilon": 1.0, "delta": 1e-06, "notion": "zcdp", "order": null, "relation": "ADD_OR_REMOVE_ONE", "unit": "one record", "of_epsilon": true, "limit": ["2d5dd4e9bc4e40b0b609/746a52880080000000000"], "most": ["31e18b0140a39/80000000000000"], "spent": ["0/1"]}','["1/190"]','["0/1"]',0);
INSERT INTO "dpcalib_budgets" VALUES('team','all','salaries','{"schema": "dpcalib.budget/1", "epsilon": 0.5, "delta": 1e-06, "notion": "zcdp", "order": null, "relation": "ADD_OR_REMOVE_ONE", "unit": "one record", "of_epsilon": true, "limit": ["18bdd9e84a913cbf58f2d/e8d4a51001000000000000"], "most": ["1b34249e84e41d/1000000000000000"], "spent": ["0/1"]}','["1/190"]','["0/1"]',3);
CREATE TABLE dpcalib_entries (
	sequence BIGINT NOT NULL, 
	kind TEXT NOT NULL, 
	budget TEXT NOT NULL, 
	settles BIGINT, 
	"key" TEXT, 
	label TEXT NOT NULL, 
	spender TEXT NOT NULL, 
	time TEXT NOT NULL, 
	mechanism TEXT, 
	cost TEXT, 
	detail TEXT, 
	hash TEXT NOT NULL, 
	PRIMARY KEY (sequence), 
	UNIQUE (settles), 
	UNIQUE ("key")
);
INSERT INTO "dpcalib_entries" VALUES(1,'open','all',NULL,NULL,'all','someone','2026-01-01T00:00:00.000+00:00',NULL,NULL,'{"dataset": "salaries", "parent": null, "form": "{\"schema\": \"dpcalib.budget/1\", \"epsilon\": 1.0, \"delta\": 1e-06, \"notion\": \"zcdp\", \"order\": null, \"relation\": \"ADD_OR_REMOVE_ONE\", \"unit\": \"one record\", \"of_epsilon\": true, \"limit\": [\"2d5dd4e9bc4e40b0b609/746a52880080000000000\"], \"most\": [\"31e18b0140a39/80000000000000\"], \"spent\": [\"0/1\"]}"}','cd872e997d759628978810682e5b3d49a78d48d7e82c8fd33b42b267a12525d0');
INSERT INTO "dpcalib_entries" VALUES(2,'open','team',NULL,NULL,'team','someone','2026-01-01T00:00:01.000+00:00',NULL,NULL,'{"dataset": "salaries", "parent": "all", "form": "{\"schema\": \"dpcalib.budget/1\", \"epsilon\": 0.5, \"delta\": 1e-06, \"notion\": \"zcdp\", \"order\": null, \"relation\": \"ADD_OR_REMOVE_ONE\", \"unit\": \"one record\", \"of_epsilon\": true, \"limit\": [\"18bdd9e84a913cbf58f2d/e8d4a51001000000000000\"], \"most\": [\"1b34249e84e41d/1000000000000000\"], \"spent\": [\"0/1\"]}"}','0d80afeee552f54b9ddd36d3669f8e7edbb9384b3938f5fa6f603f0f0267d20a');
INSERT INTO "dpcalib_entries" VALUES(3,'spend','team',NULL,'k1','first','someone','2026-01-01T00:00:02.000+00:00','{"type": "Gaussian", "noise_multiplier": 20.0, "replace_distance": 2.0}','{"team": ["1/320"], "all": ["1/320"]}',NULL,'fa576b5796d320f481bb872a04c43777179012a1030fa781a88376d94226d063');
INSERT INTO "dpcalib_entries" VALUES(4,'reserve','team',NULL,'k2','second','someone','2026-01-01T00:00:03.000+00:00','{"type": "Gaussian", "noise_multiplier": 20.0, "replace_distance": 2.0}','{"team": ["1/320"], "all": ["1/320"]}',NULL,'abe01f7847145831ea90dcde8e48844377b263bb836fc918a06a9b9b6bf46b9f');
INSERT INTO "dpcalib_entries" VALUES(5,'commit','team',4,NULL,'second','someone','2026-01-01T00:00:04.000+00:00',NULL,NULL,'{"holder": null}','57225d27b7063df90e6e9f3d640a497a0daa8f2f066623493f5b3f9a34d664d2');
INSERT INTO "dpcalib_entries" VALUES(6,'reserve','team',NULL,'k3','third','someone','2026-01-01T00:00:05.000+00:00','{"type": "Gaussian", "noise_multiplier": 20.0, "replace_distance": 2.0}','{"team": ["1/320"], "all": ["1/320"]}',NULL,'4c550c3f8800d90c0e7808c426e4c78a3f45ce6814628dc3e62a1a903485da38');
INSERT INTO "dpcalib_entries" VALUES(7,'cancel','team',6,NULL,'third','someone','2026-01-01T00:00:06.000+00:00',NULL,NULL,'{"data_never_read": "never ran"}','ef823838b0849ba583741dfb110c33f052c6b31fc24dda5faaa2b0e1818fbafe');
CREATE TABLE dpcalib_head (
	one INTEGER NOT NULL CHECK (one = 1), 
	version INTEGER NOT NULL, 
	id TEXT NOT NULL, 
	sequence BIGINT NOT NULL, 
	hash TEXT NOT NULL, 
	PRIMARY KEY (one)
);
INSERT INTO "dpcalib_head" VALUES(1,1,'abca6d4d-1370-4ccf-b4a2-41ad7c293d00',7,'ef823838b0849ba583741dfb110c33f052c6b31fc24dda5faaa2b0e1818fbafe');
CREATE TRIGGER dpcalib_no_update BEFORE update ON dpcalib_entries BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END;
CREATE TRIGGER dpcalib_no_delete BEFORE delete ON dpcalib_entries BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END;
COMMIT;
