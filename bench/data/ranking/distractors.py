#!/usr/bin/env python3
"""Prints the distractor memories of the ranking set as JSON lines (keys d00001 …).

Deterministic for a given count and seed; standard library only. The memories are composed from sentence templates
and word lists that share their vocabulary with the gold memories, but name other services, people, firms and places.

usage: distractors.py [COUNT] [--seed N] [--origin]
  COUNT     how many (default 5740)
  --origin  print "key<TAB>template<TAB>main noun" instead, for check.py
"""
import json
import re
import sys

DEFAULT_COUNT = 5740
DEFAULT_SEED = 20261115


class Source:
    """A small generator of our own (splitmix64), so that the output depends on no library's algorithm."""

    def __init__(self, seed):
        self.state = seed & (2**64 - 1)

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & (2**64 - 1)
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
        return z ^ (z >> 31)

    def below(self, n):
        return self.next() % n

    def pick(self, items):
        return items[self.below(len(items))]

    def shuffled(self, items):
        items = list(items)
        for i in range(len(items) - 1, 0, -1):
            j = self.below(i + 1)
            items[i], items[j] = items[j], items[i]
        return items


def words(text):
    return [w.strip() for w in text.replace("\n", " ").split(",") if w.strip()]


def cross(left, right, joint=" ", step=1):
    return [a + joint + b for a in left for b in right][::step]


FIRST = words("""Rosalind, Bartek, Chiamaka, Yusuf, Annelie, Pierrick, Noor, Matteo, Siobhan, Rajesh, Ludmila, Kwame,
Esther, Viktor, Paloma, Hamish, Zeynep, Ottilie, Marlon, Fenna, Ignacio, Solveig, Aurelio, Branka, Cormac, Dagny,
Emeka, Florian, Gwendolyn, Hadiza, Ivo, Jovana, Kalle, Lucinda, Mateusz, Nadezhda, Orla, Quentin, Ragnhild, Stelian""")
LAST = words("""Achterberg, Bianchi, Cardozo, Dunleavy, Eriksen, Fontaine, Grabowski, Hollander, Ivanova, Jankowski,
Kowalczyk, Lachance, Mbeki, Novak, Ostrander, Pellegrini, Quigley, Rasmussen, Szymanski, Thibault, Underwood,
Vasquez, Whitcombe, Yilmaz, Zielinski, Abernathy, Blomqvist, Castellano, Drummond, Fitzgerald""")
PERSON = cross(FIRST, LAST, step=7)
SVC = words("""Alder, Basalt, Bittern, Bramble, Calypso, Capstan, Cobalt, Condor, Coral, Crossbill, Curlew, Cygnet,
Dahlia, Dipper, Dory, Dunlin, Egret, Falcon, Fennel, Finch, Flint, Gannet, Garnet, Gecko, Goshawk, Granite, Grouse,
Gryphon, Halibut, Hazel, Hemlock, Hobby, Hornet, Ibis, Indigo, Jackdaw, Jasper, Juniper, Kelp, Kite, Lapwing, Larch,
Lemur, Linnet, Lobster, Lynx, Magpie, Mallow, Mango, Manta, Marlin, Merlin, Mistral, Monsoon, Narwhal, Nettle,
Nighthawk, Nimbus, Obsidian, Ocelot, Onyx, Orca, Oriole, Otterline, Peregrine, Petrel, Pike, Pipit, Plover, Pollux,
Puffin, Quail, Quartz, Raven, Redstart, Rowan, Saffron, Sandpiper, Sardine, Shrike, Siskin, Skua, Sorrel, Sparrow,
Starling, Sturgeon, Swift, Tamarind, Teal, Thistle, Topaz, Toucan, Turnstone, Umber, Urchin, Vireo, Vulture, Wagtail,
Walnut, Warbler, Waxwing, Whimbrel, Willow, Wombat, Wren, Yarrow, Zephyr, Zircon""")
FIRM = cross(words("""Aldermoor, Bexhill, Castellan, Dovetail, Eastbrook, Fairholm, Glenross, Hollins, Inverleith,
Jarrow, Kilnsea, Lindale, Mossgate, Norbury, Oakhanger, Penrose, Quayside, Rothwell, Selwyn, Tarbert, Ullswater,
Vantage Row"""), words("Freight, Foods, Medical, Textiles, Energy, Publishing, Robotics"), step=2)
PLACE = words("""Antwerp, Bergen, Bologna, Bratislava, Brno, Bruges, Bucharest, Cardiff, Cork, Dresden, Dubrovnik,
Edinburgh, Galway, Gdańsk, Geneva, Genoa, Ghent, Graz, Groningen, Haarlem, Helsinki, Innsbruck, Istanbul, Kraków,
Leipzig, Liège, Linz, Ljubljana, Lucerne, Luxembourg, Maastricht, Manchester, Mantua, Mostar, Naples, Nicosia, Odense,
Oslo, Ostrava, Padua, Palermo, Pécs, Plovdiv, Poznań, Prague, Ravenna, Reykjavík, Riga, Rotterdam, Salzburg, Sarajevo,
Sibiu, Skopje, Sofia, Split, Szeged, Tampere, Tartu, Thessaloniki, Timișoara, Tirana, Trieste, Trondheim, Turin,
Turku, Utrecht, Varna, Venice, Verona, Vilnius, Wrocław, York, Zadar, Zagreb""")
TOOL = words("""Ansible, Apache Pulsar, Avro, Buildkite, CockroachDB, Consul, Crossplane, Debezium, Deno, Django,
Elixir, Envoy, Fastify, Flink, Flyway, FoundationDB, Gatling, Grafana Tempo, Hasura, Istio, Jest, JUnit, Keycloak,
Kong, Kotlin Multiplatform, Laravel, Linkerd, Liquibase, Locust, Mailgun, MariaDB, Memcached, MinIO, MongoDB, Next.js,
Nginx, Nomad, Nuxt, OpenFGA, Packer, Phoenix, Podman, Prefect, Prometheus, Pulumi, RabbitMQ, Remix, Rspec, ScyllaDB,
Selenium, Sentry, Snowflake, SolidJS, Spring Boot, SQLite, Storybook, Svelte, Temporal, Thanos, Traefik, Trino, Vite,
Vitest, Vue, Webpack, Zig, PostgreSQL, Redis, Kafka, Terraform, Vault, OpenSearch, BigQuery, Airflow, GraphQL, gRPC,
PgBouncer, React, Kubernetes, OpenTelemetry, Grafana, GitHub Actions, Jenkins, Android Studio""")
TABLE = cross(words("""shipment, voucher, basket, address, carrier, coupon, refund, wishlist, parcel, supplier, device,
badge, shift, ticket, review, segment, campaign, asset"""), words("events, lines, history, links"), "_")
COLUMN = words("""status, carrier_code, updated_at, weight_grams, locale, channel, source_id, valid_from, batch_no,
colour, priority, region_code, expires_at, parent_id, kind, checksum""")
DISH = words("""lentil soup, mushroom risotto, fish pie, chicken tagine, beetroot salad, potato gratin, leek tart,
onion soup, pumpkin curry, spinach lasagne, tomato chutney, plum jam, apple crumble, lemon cake, rhubarb fool,
walnut brownies, carrot cake, oat biscuits, pear sorbet, ginger cordial, barley stew, stuffed peppers, aubergine dip,
cauliflower cheese, celeriac mash, courgette fritters, chickpea stew, bean chilli, cabbage rolls, pea soup, beef goulash,
lamb shoulder, roast duck, pork schnitzel, meatballs in cream, smoked mackerel paste, mussels in cider, salmon gravlax,
herring salad, crab cakes, prawn bisque, saffron rice, herb omelette, cheese soufflé, asparagus quiche, egg curry,
noodle broth, tofu stir-fry, rice pudding, chocolate mousse, almond torte, cherry compote, blackcurrant jelly,
pickled cucumber, sauerkraut, quince paste, elderflower syrup, mustard dressing, parsley pesto, garlic confit,
horseradish sauce, vegetable stock, fig chutney, date bars, honey nougat, caramel flan""")
PLANT = words("""tomatoes, cucumbers, courgettes, leeks, carrots, parsnips, beetroot, radishes, lettuce, spinach, chard,
peas, broad beans, sweetcorn, pumpkins, squash, aubergines, peppers, fennel, celery, garlic, shallots, rhubarb,
asparagus, artichokes, strawberries, raspberries, gooseberries, redcurrants, blueberries, blackberries, apples, pears,
plums, cherries, quinces, figs, grapes, hazels, walnuts, roses, dahlias, tulips, peonies, irises, lavender, sage, thyme,
rosemary, mint, basil, parsley, dill, chives, sunflowers, sweet peas, foxgloves, hollyhocks, clematis, wisteria""")
OBJECT = words("""lawn mower, chimney, roof gutter, cellar door, garage light, washing machine, tumble dryer,
dishwasher, freezer, oven hood, induction hob, water softener, doorbell, smoke detector, garden shed, greenhouse,
compost bin, rain barrel, stair lift, attic hatch, bathroom fan, shower drain, kitchen tap, letter box, garden gate,
hedge trimmer, pressure washer, extension ladder, cordless drill, table saw, sewing machine, slide projector,
record player, telescope, canoe, sailing dinghy, cargo bike, caravan, roof box, camping stove, snow blower, wood stove,
fireplace, wallbox, thermostat, dehumidifier, air purifier, robot vacuum, baby monitor, electric piano, accordion,
banjo, viola, clarinet, trombone, harp, harmonium, enlarger, loom, pottery wheel, kiln, aquarium, terrarium, chicken coop""")
BOOK = cross(words("The Glass, A Quiet, The Northern, The Last, A Borrowed, The Salt, The Paper, A Second"),
             words("Harbour, Winter, Orchard, Station, Garden, Lighthouse, Letter, Mountain"))
CAUSE = words("""a stale feature flag, a full inode table, an unbounded queue, a wrong time-out of 300 s, a typo in the
overlay, a missing index, a race between two workers, a bad health check, a proxy that dropped headers, a rolled-back
schema, a client that ignored Retry-After, a corrupted cache entry, an old container image, a noisy neighbour on the host,
a misread environment variable, a quota nobody watched, a duplicated worker name, a half-finished deployment,
a broken symlink, a file handle leak, an IPv4-only allow list, an overeager load balancer, a truncated CSV,
an unescaped quote, an integer overflow in a counter, a deadlock on two rows, a slow DNS lookup""")
FIX = words("""the limit is now configurable, an alert was added, the job was rewritten, the default was lowered,
the test suite covers it now, the vendor shipped a patch, the worker restarts itself, a dashboard shows the queue depth,
the check runs before each release, the image is pinned by digest, the retry was removed, a rate limit was added,
the proxy was replaced, the configuration is validated at start, ownership moved to the platform people,
the runbook gained a page, the feature was switched off, the index was added concurrently""")
TEAM = words("""the fulfilment team, the returns team, the mobile guild, the data office, the warehouse crew,
the partner desk, the growth squad, the catalogue team, the support tools team, the content team, the identity squad,
the logistics team, the reporting team, the integrations team""")
TRAIT = words("""answers fastest in chat, likes long written proposals, knows the customs rules, speaks Danish and Polish,
used to work in banking, organises the summer party, keeps the wiki tidy, writes the release notes, sits near the window,
came from the sister company, reviews every schema change, collects old keyboards, hates long threads,
runs the accessibility meetup, mentors two students, cycles to the office, is training for a triathlon""")
ROLE = words("""backend engineer, product manager, support lead, data engineer, copywriter, recruiter, account manager,
quality engineer, network engineer, iOS developer, Android developer, office manager, payroll clerk, researcher,
solutions architect, technical writer, warehouse planner, buyer, translator, illustrator""")
METRIC = words("""p95 latency, error rate, cache hit ratio, queue depth, CPU usage, memory use, build time, start-up time,
bundle size, index size, replication lag, disk throughput, bounce rate, conversion, open rate, test duration""")
FOOD = words("""sesame, peanuts, celery, lupin, mustard, strawberries, shellfish, soya, gluten, lactose, eggs, tomatoes,
sulphites, almonds, pineapple, raw carrots""")
HURT = words("""left shoulder, ankle, wrist, lower back, elbow, hip, thumb, neck, Achilles tendon, collarbone, heel, ribs""")
SIGHT = words("""the cathedral tower, the tram museum, the covered market, the botanical garden, the old harbour,
the puppet theatre, the city wall, the river baths, the puzzle shop, the maritime museum, the opera tour, the flea market""")
EVENT = words("""kick-off, roadmap review, price negotiation, design critique, usability test, data workshop,
threat modelling round, capacity review, hack day, supplier visit, training day, budget talk, team lunch, demo""")
TOPIC = words("""offline labels, weekly invoices, returns at lockers, gift cards, parcel tracking, search synonyms,
delivery slots, colour contrast, stock forecasts, price lists, VAT numbers, customs papers, photo quality,
translation gaps, account deletion, audit trails, push messages, fraud review, cookie banners, scanner firmware""")
WD = words("Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday")
MONTH = words("January, February, March, April, May, June, July, August, September, October, November, December")
ADJ = words("noisy, charming, damp, spotless, overpriced, tiny, sunny, draughty, central, remote")
DAYTIME = words("before nine, at noon, after lunch, late at night, at dawn, in the early evening")

# Subjects of the gold memories, only ever mentioned in passing (a talk, a question, a reading list), never explained:
# they give lexical search something to trip over.
MENTION = words("""JSONB columns, primary keys, UUIDs, microservices, event streaming, object versioning, warm standby,
SOAP endpoints, table partitioning, prepared statements, connection pools, cache persistence, product analytics,
index refresh intervals, gRPC deadlines, restore drills, manual failover, spot nodes and taints, refresh tokens,
password hashing with Argon2id, feature flags, rate limits, audit logs and WORM buckets, error budgets, the pricing engine,
remote build caching, ARM runners, release branches, SMS providers, soft deletes, minor currency units, business day close,
CDN purging by cache tag, secret paths in Vault, tail sampling, SDK licences, dbt models, persisted queries, dual-stack IPv6,
domain renewal, vector search with HNSW, embedding models, cold starts, card processors, idempotency keys, k6 load tests,
bastion hosts, Kustomize overlays, staging costs, expired certificates, double posting, shard corruption, duplicate e-mails,
SMS fraud, login loops in Safari, JWKS caching, BGP leaks, table locks in migrations, leaked AWS keys, leap-day bugs,
push notifications on iOS, reconnect storms and jitter, alert storms, exchange rates, backfills in Airflow, memory leaks,
robots.txt, phishing of finance, signing key rotation, node draining, Friday hotfixes, reseller onboarding, GDPR access requests,
phased rollout, stuck consumers, on-call handover, laptop setup, month-end close, vulnerability disclosure,
two-factor reset, the transactional outbox, renaming columns, retry budgets, error enums in Rust, test data builders,
snapshot tests, cursor pagination, data fetching in React, structured log fields, circuit breakers, pull request size,
CSS tokens and stylelint, incident reviews, field numbers in protobuf, DKIM selectors, WCAG audits, browser support,
Playwright, flaky tests, mutation testing, contract tests, coverage gates, penetration tests, SBOM signing, PCI scope,
bug bounties, CSP nonces, YubiKeys, fraud scores, training snapshots, prompt caching, stock forecasts with LightGBM,
interview work samples, salary bands, open positions, ISO 27001 evidence, trademark renewal, the office lease,
commit messages, code comments, Mermaid diagrams, ORMs, naming of booleans, deep work without notifications,
hazelnut allergies, robotics clubs, fountain pens, beagles, half marathons, night guards at the dentist, amlodipine,
caffeine and sleep, sourdough starters, cardamom buns, cast iron pots, aisle seats, passports, ferries, heat pump alarms,
bleeding radiators, guest Wi-Fi, bicycle insurance, allotment potatoes, varroa mites in the hive, film cameras,
the Caro-Kann opening, dovetails, chamber choirs, piano tuning, board games, mortgage rates, tax deductions, solar inverters,
Portuguese lessons, rowing clubs, half-term weeks, crisis boxes, cello practice, winter tyres""")

# Extra sentences, by domain; one of them (or none) follows the template's own sentence.
ASIDE = ["{person} also brought up {mention}, to no effect.", "The same page mentions {mention} and {mention2}.",
         "Unrelated to {mention}, whatever {first} says.", "Nothing was said about {mention}.",
         "{first} had confused it with {mention}."]
TAIL = {
    "ops": [*ASIDE, "The dashboard is called {svc} overview.", "{person} has the details.", "{fix!}.",
            "The ticket is number {n4}.", "Measured on {date}: {metric} changed by {pct} %.", "Ask {team} before touching it.",
            "Nothing else in the cluster depends on it.", "Review it again in {month}.",
            "The cost is about {n3} euros a month.", "Documentation lies in the {svc2} folder of the wiki.",
            "{team!} asked for this after {cause}.", "A rollback takes about {n2} minutes.", ""],
    "work": [*ASIDE, "{person} took the minutes.", "Next round in {month}.", "{team!} was not present.",
             "The notes are in the shared folder {svc}.", "{n2} people attended.", "The budget is {n4} euros.",
             "{firm} pays for it.", "No decision on {topic} was made.", "It was moved twice already.", ""],
    "life": [*ASIDE, "{first} recommended it.", "It cost {n3} kronor.", "Noted on {date}.", "The receipt is in the drawer.",
             "Ask {first} for the phone number.", "Worth repeating next {month}.", "Not again before {month}.",
             "{first} and {first2} came along.", ""],
}

# (namespace, domain, title, sentence, tags); the slot with a star is the main noun.
T = []


def t(namespace, domain, title, sentence, tags):
    T.append((namespace, domain, title, sentence, tags))


# --- infrastructure, databases, services
t("_semantic/decisions", "ops", "{svc*} keeps its own queue", "{svc*} keeps its own {mq} queue and does not share the event bus, since {team} needs replays of {n2} days.", "messaging,queue")
t("_semantic/decisions", "ops", "{svc*} stays on two replicas", "{svc*} stays on two replicas with {n2} GB of memory each; a third one brought {metric} down by only {pct} %.", "scaling,kubernetes")
t("_semantic/decisions", "ops", "{tool*} trial for {firm}", "The trial of {tool*} for {firm} ended after {n1} weeks: {metric} improved, but {cause} came up again and again.", "evaluation,tooling")
t("_semantic/decisions", "ops", "No {tool*} in {svc}", "{team!} decided against {tool*} in {svc}, as only {person} could have operated it.", "architecture,decision")
t("_semantic/decisions", "ops", "{svc*} API version {n1}", "Version {n1} of the {svc*} API drops the XML format and renames {col} to {col2}; partners of {firm} were told in {month}.", "api,versioning")
t("_semantic/decisions", "ops", "Retention for {table*}", "Rows in {table*} are kept {n2} months and then moved to the archive bucket of {svc}.", "database,retention")
t("_semantic/decisions", "ops", "{svc*} written in another language", "The importer {svc*} was ported to {lang} by {team}, mostly to share code with {svc2}.", "language,rewrite")
t("_semantic/knowledge", "ops", "Index on {table*}", "The table {table*} in {svc} has a partial index on {col} where {col2} is not null, {n2} GB in size.", "postgres,index,database")
t("_semantic/knowledge", "ops", "{table*} has odd columns", "In {table*} the column {col} holds both codes and free text, because {firm} imported it from a spreadsheet in {year}.", "database,schema")
t("_semantic/knowledge", "ops", "{tool*} version in {svc}", "{svc} runs {tool*} {n1}.{n2}; the next major version changes how connections are pooled.", "version,upgrade")
t("_semantic/knowledge", "ops", "{svc*} time-outs", "{svc*} waits {n1} seconds for {svc2} and then answers with the cached copy from {daytime}.", "timeout,latency")
t("_semantic/knowledge", "ops", "{svc*} scheduling", "The nightly job of {svc*} starts at {hh}:{mm} UTC, reads {table} and needs about {n2} minutes.", "cron,batch")
t("_semantic/knowledge", "ops", "{svc*} metrics", "For {svc*} the {metric} is normally {n3} and rises on {wd} because of the export for {firm}.", "metrics,observability")
t("_semantic/knowledge", "ops", "Quotas of {svc*}", "{svc*} accepts {n3} requests per minute from each tenant of {firm}; the burst is {n2}.", "quota,gateway")
t("_semantic/knowledge", "ops", "{tool*} configuration", "Our {tool*} configuration for {svc} lives in the repository {svc2}-config, and the worker count is {n2}.", "configuration")
t("_semantic/knowledge", "ops", "Ownership of {svc*}", "{svc*} belongs to {team} since {month} {year}; before that {person} looked after it alone.", "ownership,service")
t("_semantic/knowledge", "ops", "{svc*} storage", "{svc*} stores attachments for {firm} in a bucket with lifecycle rules: {n2} days standard, then archive.", "storage,bucket")
t("_semantic/knowledge", "ops", "{svc*} front end bundle", "The bundle of the {svc*} screen weighs {n3} kB, of which {tool} is a third; {team} wants it under {n3b}.", "frontend,performance")
t("_semantic/knowledge", "ops", "{svc*} tests", "The {svc*} suite has {n3} tests on {tool}; the slowest one loads {table} and takes {n2} seconds.", "testing,ci")
t("_semantic/knowledge", "ops", "{svc*} roles", "In {svc*} the role {col}_admin may export {table}, everyone else sees masked values.", "security,permissions")
t("_semantic/knowledge", "ops", "Scanner findings in {svc*}", "The dependency scan of {svc*} lists {n2} findings in {tool}, {n1} of them rated high; {person} judged them unreachable.", "security,scan")
t("_semantic/knowledge", "ops", "{firm*} integration", "{firm*} sends {n3} files a day to {svc} by SFTP, named after {col}, and expects an answer within {n2} minutes.", "integration,partner")
t("_semantic/knowledge", "ops", "{svc*} translations", "Strings of {svc*} are translated by {firm} each {wd}; missing ones fall back to English.", "i18n,frontend")
t("_semantic/knowledge", "ops", "{svc*} model", "The {svc*} ranking model was trained on {n3} thousand rows of {table} and beats the rules by {pct} %.", "ml,model")
t("_semantic/knowledge", "ops", "Naming of {svc*} topics", "Topics of {svc*} follow {svc*}.{col}.v{n1}; consumers such as {svc2} must ignore unknown fields.", "messaging,convention")
t("_episodic/incidents", "ops", "{svc*} slow on {date}", "On {date} {svc*} was slow for {n2} minutes because of {cause}; {fix}.", "incident,latency")
t("_episodic/incidents", "ops", "{svc*} lost messages", "{svc*} dropped {n3} messages for {firm} on {date}. The reason was {cause}.", "incident,messaging")
t("_episodic/incidents", "ops", "{table*} import failed", "The import into {table*} failed on {date} after {n3} rows: {cause}.", "incident,import")
t("_episodic/incidents", "ops", "{svc*} deploy rolled back", "The deployment of {svc*} on {date} was rolled back when {metric} doubled; {team} found {cause}.", "incident,deployment")
t("_episodic/incidents", "ops", "{firm*} complained about exports", "{firm*} complained on {date} that exports of {table} were empty. It was {cause}, and {fix}.", "incident,customer")
t("_episodic/incidents", "ops", "{svc*} alert at night", "{person} was woken by {svc*} at {hh}:{mm} on {date}: {metric} over the limit for {n2} minutes, gone by itself.", "incident,on-call,alert")
t("_episodic/incidents", "ops", "{tool*} upgrade trouble", "After the upgrade of {tool*} on {date} the screens of {svc} stayed blank for {n2} minutes.", "incident,upgrade")
t("_episodic/incidents", "ops", "{svc*} wrong figures", "Reports from {svc*} showed wrong figures for {firm} in {month} because {col} was summed twice.", "incident,reporting")
t("_episodic/sessions", "ops", "Profiling {svc*}", "Profiled {svc*} with {person}: {pct} % of the time went into parsing {table}, and {fix}.", "session,performance")
t("_episodic/sessions", "ops", "Pairing on {svc*}", "Paired with {person} on {svc*}, replaced a loop over {table} by one query on {col}; {metric} fell by {pct} %.", "session,pairing")
t("_episodic/sessions", "ops", "Investigated {tool*}", "Looked into why {tool*} in {svc} logs warnings about {col}; it is {cause}, harmless.", "session,debugging")
t("_episodic/sessions", "ops", "Cleaned up {svc*}", "Removed {n3} lines of dead code from {svc*}, among them the old {tool} adapter for {firm}.", "session,cleanup")
t("_episodic/blockers", "ops", "Solved: {svc*} access", "{svc*} could not be tested for {n2} days for lack of an account at {firm}; solved on {date} by {person}.", "blocker,solved")
t("_episodic/blockers", "ops", "Solved: {tool*} licence", "The {tool*} licence for {team} arrived on {date} after {n2} days, so {svc} went on.", "blocker,solved,licence")
t("_procedural/runbooks", "ops", "Restart {svc*}", "To restart {svc*}: pause {svc2}, wait until the queue depth is below {n2}, restart one worker at a time and watch {metric}.", "runbook,restart")
t("_procedural/runbooks", "ops", "Add a tenant to {svc*}", "A tenant is added to {svc*} with {svc2}ctl tenant add, then {team} loads {table} and {person} checks {col}.", "runbook,tenant")
t("_procedural/runbooks", "ops", "Reload {table*}", "To reload {table*}, stop the importer of {svc}, truncate the staging copy, load the file of {firm} and compare {col}.", "runbook,import,database")
t("_procedural/runbooks", "ops", "{svc*} release", "Releases of {svc*} are cut on {wd} by {team}: tag, wait for {tool}, publish the notes, tell {firm}.", "runbook,release")
t("_procedural/runbooks", "ops", "Export from {svc*} for auditors", "For the SOC 2 auditors run the {svc*} export of {table} with {col} masked and hand it to {person}.", "runbook,audit,compliance")
t("_procedural/runbooks", "ops", "Replace a {svc*} worker host", "Replace a {svc*} worker by creating the new host with {tool}, copying {col} settings and removing the old one after {n1} hours.", "runbook,host")
t("_procedural/patterns", "ops", "{svc*} read model", "{svc*} builds its read model from {table} and may be dropped and rebuilt in {n2} minutes.", "pattern,cqrs")
t("_procedural/patterns", "ops", "Validation in {svc*}", "In {svc*} input is validated once at the edge; inside, {col} is a type of its own.", "pattern,validation")
t("_procedural/patterns", "ops", "{tool*} wrappers", "Calls to {tool*} in {svc} go through one small wrapper module so that {team} can replace it.", "pattern,design")
t("_procedural/patterns", "ops", "Batch size for {table*}", "Bulk writes to {table*} go in batches of {n3}, ordered by {col}, with a pause of {n2} ms.", "pattern,database,batch")
t("_procedural/migrations", "ops", "{svc*} moved to {tool}", "{svc*} was moved to {tool} between {month} and {month2}; {person} kept the old system readable for {n2} days.", "migration")
t("_procedural/migrations", "ops", "Column moved out of {table*}", "The column {col} moved from {table*} to its own table in {svc}; readers at {firm} use the view until {month}.", "migration,schema")
t("_procedural/migrations", "ops", "{firm*} data moved", "Data of {firm*} was moved from {tool} to {svc} in {n1} nights; {n3} rows with an odd {col} were left out.", "migration,customer")
# --- work, people, customers
t("_semantic/entities", "work", "{person*}", "{person*} works as {role} at {firm} and {trait}.", "person,contact")
t("_semantic/entities", "work", "{person*} of {firm}", "At {firm} the contact for {topic} is {person*}, who {trait}.", "person,customer")
t("_semantic/entities", "work", "{person*} joined", "{person*} joined {team} in {month} {year} as {role}, coming from {place}.", "person,team")
t("_semantic/entities", "work", "{firm*}", "{firm*} is a customer from {place} with {n3} seats; the account is handled by {person}.", "customer")
t("_semantic/entities", "work", "{firm*} as supplier", "{firm*} supplies us with {object}s for the office in {place}; invoices go to {person}.", "vendor")
t("_semantic/entities", "work", "{place*} office", "The {place*} office of {firm} has {n2} desks and a meeting room named {svc}.", "office,place")
t("_semantic/preferences", "work", "How {person*} reads reports", "{person*} wants reports on {topic} as one page with a chart of {metric}, sent on {wd}.", "preference,reporting")
t("_semantic/preferences", "work", "{person*} and tools", "{person*} works with {tool} and asks that examples for {svc} use {lang}.", "preference,tooling")
t("_semantic/preferences", "work", "{firm*} style", "Texts for {firm*} avoid jargon, spell {topic} in full and end with the name of {person}.", "preference,writing")
t("_semantic/decisions", "work", "{topic*} for {firm}", "For {firm} we do not build {topic*} this year; {person} accepted a manual list instead.", "decision,customer")
t("_semantic/knowledge", "work", "{firm*} contract", "The contract with {firm*} runs until {month} {year2} and includes {n2} hours of support a month on {topic}.", "contract,customer")
t("_semantic/knowledge", "work", "{place*} conference", "The {tool} conference in {place*} takes place in {month}; {person} submitted a talk on {topic}.", "conference")
t("_semantic/knowledge", "work", "Course in {place*}", "{team!} received {n1} seats for the {tool} course in {place*}, paid by {firm}.", "training")
t("_episodic/sessions", "work", "{event} with {firm*}", "{event!} with {firm*} on {date}: they care most about {topic}, {person} about the price.", "meeting,customer")
t("_episodic/sessions", "work", "{event} in {place*}", "{event!} of {team} in {place*} on {date}; {topic} took the whole morning, {topic2} was left out.", "meeting,team")
t("_episodic/sessions", "work", "Call with {person*}", "Call with {person*} on {date} about {topic}: {team} sends an estimate of {n2} days.", "call")
t("_episodic/sessions", "work", "Candidate {person*}", "Talked to {person*}, candidate for {role} at {firm}: strong on {topic}, new to {tool}.", "hiring,candidate")
t("_episodic/blockers", "work", "Solved: signature of {firm*}", "The agreement with {firm*} about {topic} lay unsigned for {n2} days and came back on {date}.", "blocker,contract,solved")
t("_episodic/incidents", "work", "Complaint by {person*}", "{person*} of {firm} complained on {date} that {topic} were promised for {month}; {person2} apologised.", "complaint,customer")
t("_procedural/runbooks", "work", "Visit by {firm*}", "When {firm*} visits, book the room {svc}, order lunch for {n2}, and have {person} show {topic}.", "runbook,visit")
t("_procedural/patterns", "work", "Estimates for {firm*}", "Estimates for {firm*} are given as a range in days, checked by {person}, and never mention {tool}.", "pattern,estimate")
# --- private life
t("_semantic/entities", "life", "{person*}, friend", "{person*} is a friend from {place} who plays the {instr} and is allergic to {food}.", "friend,allergy")
t("_semantic/entities", "life", "{person*}, neighbour", "{person*} from number {n2} lent us the {object} and waters the {plant} in {month}.", "neighbour")
t("_semantic/entities", "life", "{person*}'s children", "{person*} has a son of {n1} who does {sport} on {wd} and a daughter who plays the {instr}.", "friend,children")
t("_semantic/entities", "life", "{object*} repair shop", "The {object*} was repaired by {person} in {place}, who takes {n2} days and wants cash.", "repair,contact")
t("_semantic/preferences", "life", "Cooking for {person*}", "When {person*} comes to dinner: no {food}, likes {dish}, and tea rather than coffee.", "guest,food")
t("_semantic/preferences", "life", "Gifts for {person*}", "{person*} is happy about books such as \"{book}\" and never about {plant}.", "gift,friend")
t("_semantic/knowledge", "life", "{dish*}", "For {dish*} {first} uses {n3} g of {plant} and leaves it {n2} minutes on a low flame.", "cooking,recipe")
t("_semantic/knowledge", "life", "{dish*} without {food}", "The {dish*} can be made without {food} if {plant} are added; {first} noticed no difference.", "cooking,diet")
t("_procedural/patterns", "life", "{dish*} for a crowd", "{dish*!} for {n2} guests: prepare the day before, keep in the fridge, warm for {n2b} minutes with {plant}.", "cooking,guests")
t("_semantic/knowledge", "life", "{plant*} in the yard", "The {plant*} by the fence of {first} flower in {month} and want {n1} litres of water every {wd}.", "garden")
t("_semantic/knowledge", "life", "{plant*} seeds", "Seeds of {plant*} came from {person} in {place}; they germinate after {n2} days on the sill.", "garden,seeds")
t("_semantic/knowledge", "life", "{object*} manual", "The manual of the {object*} is in folder {n2}; the serial number ends in {n4} and the guarantee in {month} {year2}.", "house,manual")
t("_procedural/runbooks", "life", "Cleaning the {object*}", "Clean the {object*} each {month} with vinegar and a soft brush, and let it dry for {n1} hours.", "house,cleaning")
t("_procedural/runbooks", "life", "Lending out the {object*}", "Whoever borrows the {object*} signs the list of {first}, returns it on {wd} and replaces what broke.", "house,lending")
t("_semantic/knowledge", "life", "{person*}'s injury", "{person*} hurt the {hurt} in {year}, sees a physiotherapist in {place} and avoids swimming.", "health,friend")
t("_semantic/knowledge", "life", "{person*} on race day", "{person*} ran the {place} ten-kilometre race in {n2} minutes and rested the {hurt} for {n1} weeks.", "running,friend")
t("_episodic/sessions", "life", "Weekend in {place*}", "A weekend in {place*} in {month}: the {adj} hotel cost {n3} a night, {sight} was closed, {dish} was the best meal.", "travel")
t("_episodic/sessions", "life", "Train to {place*}", "The night train to {place*} was {n2} minutes late; {first} slept, {first2} read \"{book}\".", "travel,train")
t("_semantic/knowledge", "life", "{place*} tips", "In {place*} {first} says: see {sight} {daytime}, take the tram from the station, skip the {adj} rooms by the park.", "travel,tips")
t("_semantic/knowledge", "life", "\"{book*}\"", "\"{book*}\" was lent to {person} in {month}; {first} thought the ending rushed.", "books")
t("_semantic/knowledge", "life", "Library copy of \"{book*}\"", "The library in {place} holds \"{book*}\" until {wd}; the reservation runs under the name {person}.", "books,library")
t("_semantic/knowledge", "life", "Concert in {place*}", "{person} plays the {instr} in {place*} on {date}; tickets cost {n3} kronor at the door.", "music,concert")
t("_semantic/knowledge", "life", "{object*} price", "A used {object*} costs about {n4} kronor; {first} saw one in {place} in {adj2} condition.", "shopping,house")

# --- mentions in passing
t("_episodic/sessions", "work", "Lunch talk on {mention*}", "{person} of {firm} gives a lunch talk on {mention*} in {place} on {date}.", "talk")
t("_episodic/sessions", "work", "{firm} asks about {mention*}", "{firm} asked on {date} whether we have experience with {mention*}; {person} will answer.", "question,customer")
t("_semantic/knowledge", "work", "Reading list of {person}", "On the reading list of {person}: {mention*}, {mention2} and \"{book}\".", "reading,learning")
t("_semantic/preferences", "work", "{person} and {mention*}", "{person} likes to hear about {mention*} at lunch, but not about {mention2}.", "preference,small-talk")
t("_semantic/entities", "work", "{person}, expert on {mention*}", "{person} from {place} is said to be an expert on {mention*} and charges {n3} euros an hour.", "person,consultant")
t("_episodic/blockers", "work", "Solved: course on {mention*}", "The course on {mention*} in {place} was cancelled and took place on {date} after all.", "training,solved")
t("_procedural/patterns", "work", "Glossary entry {mention*}", "The glossary of {firm} lacks an entry on {mention*}; {first} writes entries in pairs and starts with {mention2}.", "glossary,writing")
t("_semantic/decisions", "work", "No policy on {mention*} at {firm}", "{firm} decided in {month} to have no policy on {mention*}; {person} had asked for one.", "decision,customer")

# --- other languages
ZH_NAME = cross(words("赵,钱,孙,李,周,吴,郑,冯"), words("建国,晓明,丽华,志强,思远,文静,子涵,雅琴"), "")
JA_NAME = cross(words("田中,鈴木,高橋,渡辺,伊藤,中村,小林,加藤"), words("直樹,美咲,大輔,陽子,翔太,由美,拓也,恵子"), "")
KO_NAME = cross(words("김,이,최,정,강,조,윤,장"), words("민준,지우,서준,하은,도윤,수빈,예준,지호"), "")
ZH_CITY = words("杭州,武汉,西安,南京,青岛,厦门,重庆,长沙,苏州,大连,昆明,天津")
JA_CITY = words("札幌,仙台,名古屋,神戸,広島,福岡,岡山,新潟,静岡,長崎,松山,横浜")
KO_CITY = words("부산,대구,인천,광주,대전,울산,수원,전주,제주,강릉,포항,청주")
ZH_SYS = words("库存系统,会员系统,物流平台,优惠券服务,推荐引擎,客服后台,报表平台,搜索服务,消息中心,退货系统")
JA_SYS = words("在庫管理,会員基盤,配送システム,クーポン機能,推薦エンジン,問い合わせ画面,集計基盤,検索機能,通知基盤,返品処理")
KO_SYS = words("재고 시스템,회원 서비스,물류 플랫폼,쿠폰 서비스,추천 엔진,상담 화면,통계 플랫폼,검색 서비스,알림 센터,반품 처리")
t("_semantic/entities", "none", "{zhname*}", "{zhname*}在{zhcity}负责{zhsys}的开发,工号是{n4},常用的工具是 {sys}。", "人物")
t("_episodic/incidents", "none", "{zhsys}异常 {date_iso}", "{date_iso} {zhsys}响应变慢{n2}分钟,{zhname*}排查后发现是 {sys} 的连接数配置过低。", "事故,性能")
t("_semantic/knowledge", "none", "{zhname*}的{zhcity}之行", "{zhname*}{mon}月去了{zhcity},住在河边的民宿,花了{n3}元,最喜欢当地的面条和夜市。", "旅行")
t("_procedural/runbooks", "none", "{zhsys}重启流程", "重启{zhsys}时先通知{zhname*},关闭 {sys} 的定时任务,等待{n2}分钟再恢复流量。", "流程,运维")
t("_semantic/entities", "none", "{janame*}さん", "{janame*}さんは{jacity}の拠点で{jasys}を担当している。内線は{n4}で、{sys} に詳しい。", "人物")
t("_episodic/incidents", "none", "{jasys}の遅延 {date_iso}", "{date_iso} に{jasys}が{n2}分間遅くなった。{janame*}さんが調べたところ {sys} の設定漏れだった。", "障害,性能")
t("_semantic/knowledge", "none", "{janame*}さんの{jacity}旅行", "{janame*}さんは{mon}月に{jacity}へ行き、駅前のホテルに{n1}泊した。市場の海鮮丼が良かったそうだ。", "旅行")
t("_semantic/entities", "none", "{koname*}", "{koname*} 님은 {kocity} 사무실에서 {kosys} 개발을 맡고 있고 내선 번호는 {n4}이며 {sys} 경험이 많다.", "인물")
t("_episodic/incidents", "none", "{kosys} 지연 {date_iso}", "{date_iso} {kosys} 응답이 {n2}분 동안 느려졌다. {koname*} 님이 {sys} 설정 오류를 찾아 고쳤다.", "장애,성능")
t("_semantic/knowledge", "none", "{koname*} 님의 {kocity} 여행", "{koname*} 님은 {mon}월에 {kocity}에 가서 바닷가 숙소에 {n1}박 머물렀고 시장 국밥이 좋았다고 한다.", "여행")
t("_episodic/incidents", "none", "{svc*} gestört am {day}.{mon}.", "Am {day}.{mon}. war {svc*} für {n2} Minuten gestört, weil {sys} nach einem Neustart die alten Einstellungen las. {person} hat es behoben.", "störung,betrieb")
t("_semantic/knowledge", "none", "Ansprechpartner in {place*}", "In {place*} ist {person} für Lieferungen und Rechnungen zuständig; der Vertrag mit {firm} läuft bis {year2}.", "kontakt,vertrag")
t("_episodic/incidents", "none", "Lenteur de {svc*}", "Le {day}/{mon}, {svc*} a répondu lentement pendant {n2} minutes à cause d'un réglage de {sys} ; {person} a corrigé la configuration.", "incident,performance")
t("_semantic/knowledge", "none", "Week-end à {place*}", "{first} a passé {n1} jours à {place*} : l'hôtel coûtait {n3} euros, le marché du dimanche valait le détour.", "voyage")
t("_episodic/sessions", "none", "Reunión con {firm*}", "En la reunión del {day}/{mon} con {firm*} se habló de las entregas en {place}; {person} enviará el presupuesto antes del viernes.", "reunión,cliente")
t("_semantic/knowledge", "none", "Recambios del proveedor {firm*}", "El proveedor {firm*} de {place} entrega los recambios en {n2} días y factura a nombre de {person}.", "proveedores,compras")

LISTS = {
    "person": PERSON, "first": FIRST, "svc": SVC, "firm": FIRM, "place": PLACE, "tool": TOOL, "table": TABLE,
    "col": COLUMN, "dish": DISH, "plant": PLANT, "object": OBJECT, "book": BOOK, "cause": CAUSE, "fix": FIX,
    "team": TEAM, "trait": TRAIT, "role": ROLE, "metric": METRIC, "food": FOOD, "hurt": HURT, "sight": SIGHT,
    "event": EVENT, "topic": TOPIC, "wd": WD, "month": MONTH, "adj": ADJ, "daytime": DAYTIME,
    "mention": MENTION,
    "mq": words("RabbitMQ, Kafka, Apache Pulsar, Redis, SQS, ActiveMQ, NATS, Temporal"),
    "sys": words("""PostgreSQL, Redis, Kafka, Nginx, RabbitMQ, MongoDB, MariaDB, Envoy, Traefik, Keycloak, Consul,
                 Memcached, MinIO, Airflow, Prometheus, Vault, OpenSearch, PgBouncer, Kubernetes, Flink"""),
    "lang": words("Go, Kotlin, Elixir, TypeScript, C#, Scala, Ruby, Swift"),
    "instr": words("oboe, flute, double bass, trumpet, harp, saxophone, mandolin, bassoon, drums, organ"),
    "sport": words("fencing, judo, handball, diving, gymnastics, climbing, ice hockey, badminton, archery, sailing, karate"),
    "adj2": words("good, poor, fair, excellent, rusty, unused"),
    "zhname": ZH_NAME, "janame": JA_NAME, "koname": KO_NAME, "zhcity": ZH_CITY, "jacity": JA_CITY, "kocity": KO_CITY,
    "zhsys": ZH_SYS, "jasys": JA_SYS, "kosys": KO_SYS,
}
NUMBERS = {"n1": (2, 9), "n2": (11, 97), "n3": (102, 994), "n4": (1021, 9873), "pct": (3, 68), "hh": (10, 23),
           "mm": (10, 58), "year": (2014, 2025), "year2": (2027, 2031), "day": (1, 28), "mon": (1, 12)}
# Topics are too few to be a main noun by themselves: pair them with a qualifier.
MAIN = dict(LISTS)
MAIN["topic"] = cross(words("regional, seasonal, automatic, printed"), LISTS["topic"])

SLOT = re.compile(r"\{([a-z]+(?:_iso)?)(\d?b?)(\*?)(!?)\}")


def slot_value(name, source):
    if name == "date":
        return f"{1 + source.below(28)} {source.pick(MONTH)}"
    if name == "date_iso":
        return f"{2023 + source.below(3)}-{1 + source.below(12):02d}-{1 + source.below(28):02d}"
    if name in NUMBERS:
        low, high = NUMBERS[name]
        return str(low + source.below(high - low + 1))
    return source.pick(LISTS[name])


def fill(text, values, source):
    def one(match):
        name, number, star, capital = match.groups()
        if name == "n":
            name, number = "n" + number[0], number[1:]
        elif name == "year" and number:
            name, number = "year2", ""
        elif name == "adj" and number:
            name, number = "adj2", ""
        label = name + number + star
        if label not in values:
            taken = {values[k] for k in values if k.rstrip("*0123456789b") == name}
            for _ in range(20):
                values[label] = slot_value(name, source)
                if values[label] not in taken:
                    break
        value = values[label]
        return value[:1].upper() + value[1:] if capital else value
    return SLOT.sub(one, text)


def generate(count, seed):
    source = Source(seed)
    decks = {}
    order = []
    seen = set()
    made = 0
    while made < count:
        if not order:
            order = source.shuffled(range(len(T)))
        number = order.pop()
        namespace, domain, title, sentence, tags = T[number]
        noun_slot = next(m.group(1) for m in SLOT.finditer(sentence) if m.group(3))
        deck = decks.setdefault(number, [])
        if not deck:
            deck.extend(source.shuffled(MAIN[noun_slot]))
        noun = deck.pop()
        values = {noun_slot + "*": noun}
        content = fill(sentence, values, source)
        if domain != "none":
            content = (content + " " + fill(source.pick(TAIL[domain]), values, source)).strip()
        name = fill(title, values, source)
        if content in seen:
            continue
        seen.add(content)
        made += 1
        yield {
            "key": f"d{made:05d}",
            "memory_type": namespace[1:].split("/")[0],
            "namespace": namespace,
            "title": name[:1].upper() + name[1:],
            "content": content[:1].upper() + content[1:],
            "tags": tags.split(","),
        }, number, noun


def main(arguments):
    count, seed, origin = DEFAULT_COUNT, DEFAULT_SEED, False
    rest = list(arguments)
    while rest:
        a = rest.pop(0)
        if a == "--seed":
            seed = int(rest.pop(0))
        elif a == "--origin":
            origin = True
        elif a.isdigit():
            count = int(a)
        else:
            sys.exit(__doc__)
    out = sys.stdout.buffer
    for row, number, noun in generate(count, seed):
        if origin:
            line = f"{row['key']}\t{number}\t{noun}"
        else:
            line = json.dumps(row, ensure_ascii=False)
        out.write(line.encode("utf-8") + b"\n")


if __name__ == "__main__":
    main(sys.argv[1:])
