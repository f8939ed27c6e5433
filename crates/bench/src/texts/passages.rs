//! Passages of text, written for this benchmark. They are ordinary: words such as "over", "user" and "forget" stand in them as often as
//! they do elsewhere, although the search for injections must look twice at each.

/// Ordinary English.
pub(super) const PROSE: [&str; 12] = [
    "The first train left at ten past six, and by then the platform was full. Most of the people on it travelled to the same three \
     offices, so they knew each other by sight and never spoke. A boy with a cello case stood near the door and apologised every time \
     the train stopped. Nobody minded. It had rained for most of the week, and whoever had a dry place to stand was content with it.",
    "We moved the archive into the new building over the summer. There were about four hundred boxes, and each had to be opened, \
     because the lists that came with them were wrong more often than they were right. Two volunteers wrote down what they found. At \
     the end of August we knew what we had, which was rather less than the previous keeper had promised and rather more than we had \
     room for.",
    "Every user of the library gets a card, and the card is all that is needed to borrow a book. There is no fee. Books can be kept for \
     four weeks, and for another four if nobody else has asked for them. If a book is lost, we ask for its price; if it is merely \
     late, we ask for patience from whoever is waiting, and send a friendly letter to the reader who forgot about it.",
    "Bread made with a long rise tastes better and keeps longer. Mix the flour, the water and a very small amount of yeast in the \
     evening, cover the bowl and leave it on the table. In the morning the dough will have doubled. Fold it over a few times, let it \
     rest for half an hour while the oven gets hot, and bake it in a closed pot. Take the lid off for the last ten minutes.",
    "The committee met on Tuesday to discuss the budget for the coming year. Ms Adeyemi reported that income was slightly above the \
     plan, mainly because the hall had been let for more evenings than expected. Against that, repairs to the roof cost twice the \
     estimate. After some discussion it was agreed to postpone the new kitchen and to ask the town for a contribution.",
    "From the ridge you can see both valleys. The one to the north is steep and narrow, with a road that clings to its side, and the one \
     to the south opens slowly towards the plain. Walkers usually come up from the south and return the same way. The descent to the \
     north is shorter, but it is not marked, and in the fog it is easy to miss the place where the path turns away from the stream.",
    "When the service is restarted, requests that are still being handled are allowed to finish. New ones wait in the queue of the \
     operating system until the process listens again, which takes less than a second on ordinary hardware. Users notice nothing but a \
     short delay. If the configuration cannot be read, the old process goes on working and says so in its log.",
    "My grandmother kept bees, and she talked to them. She told them who had been born and who had died, since bees that are not told \
     will leave, or so she believed. I thought for years that everybody did this. In the autumn she gave jars of honey to the whole \
     street, and nobody was allowed to pay for them, although Mr Novak tried each time.",
    "The results agree with those of earlier studies, with two exceptions. Participants who slept less than six hours made more errors \
     in the second task than in the first, and the effect of coffee was smaller than reported before. Both may be due to the small \
     number of people we could invite. A larger study is under way and will show whether the differences remain.",
    "A good map leaves out nearly everything. It shows where the roads go, because that is what it was made for, and it is silent about \
     the colour of the houses. Whoever draws one has to decide what the reader will want to know and then be firm about the rest. The \
     same holds for a summary, a timetable and the instructions that come with a lamp.",
    "Delivery takes three to five working days. You will receive a message with a link as soon as the parcel has left our warehouse. If \
     you are not at home, the driver leaves a note and tries again on the following day; after that the parcel waits at the nearest \
     shop for a week. To change the address, please call us before noon, since the list for the drivers is printed then.",
    "It was past midnight when they finally reached the harbour. The ferry had gone, of course, and the next would not leave before \
     morning. They sat down on the steps of the customs house, shared what was left of the cheese and argued about whose idea the \
     mountain road had been. Over the water a single light went on and off. Later it began to get cold, and they stopped arguing.",
];

/// English in which people talk.
pub(super) const QUOTES: [&str; 4] = [
    "\"Is it far?\" she asked. \"Not very,\" he said, \"but we should start now.\"\n\"Now? It is raining.\"\n\"It is always raining.\" \
     He took his coat. \"You said \"tomorrow\" yesterday, and the day before.\"",
    "\"Who has the key?\" Nobody answered. \"Well?\" \"I gave it to Tom,\" said Ann. \"You did not,\" said Tom.\n\"I did!\" \"When?\" \
     \"On Monday. You said: \"Thank you, I shall not forget it.\" And now you have.\"",
    "The sign said \"open\", the door said \"closed\", and the woman behind it said \"come in\".\n\"Which is it?\" I asked.\n\"That \
     depends,\" she said, \"on whether you want to buy anything.\" \"No.\" \"Then it is \"closed\".\"",
    "\"Read it again.\" \"\"Dear sir,\"\" she read, \"\"we regret that your letter of the 4th has not been found.\"\"\n\"Which letter?\" \
     \"It does not say.\" \"And over the page?\" \"\"Yours faithfully.\"\" \"Oh.\"",
];

/// Source code.
pub(super) const CODE: [&str; 3] = [
    "/// The place of a user in the queue, if there is one.\npub fn place(&self, user: UserId) -> Option<usize> {\n    let mut at = 0;\n    \
     for (id, entry) in &self.entries {\n        if *id == user && !entry.is_over() {\n            return Some(at);\n        }\n        at \
     += usize::from(entry.counts);\n    }\n    None\n}\n",
    "def totals(rows, key=\"amount\", default=0):\n    \"\"\"Sums the rows of each customer; rows without an amount count as the \
     default.\"\"\"\n    result = {}\n    for row in rows:\n        if row.get(\"state\") in (\"new\", \"open\"):\n            \
     customer = row[\"customer\"][\"id\"]\n            result[customer] = result.get(customer, 0) + row.get(key, default)\n    return \
     dict(sorted(result.items(), key=lambda item: -item[1]))\n",
    "export async function load(path, { signal, retries = 3 } = {}) {\n  for (let attempt = 0; ; attempt++) {\n    const response = await \
     fetch(`${base}/${path}`, { signal, headers: { accept: 'application/json' } });\n    if (response.ok) return response.json();\n    \
     if (attempt >= retries || response.status < 500) {\n      throw new Error(`cannot load ${path}: ${response.status}`);\n    }\n    \
     await new Promise((resolve) => setTimeout(resolve, 100 * 2 ** attempt));\n  }\n}\n",
];

/// German.
pub(super) const GERMAN: [&str; 2] = [
    "Der erste Zug fuhr um zehn nach sechs, und schon war der Bahnsteig voll. Die meisten kannten einander vom Sehen und grüßten nicht. \
     Ein Junge mit einem Cellokasten stand an der Tür und entschuldigte sich bei jedem Halt. Niemand störte sich daran. Es hatte fast die \
     ganze Woche geregnet, und wer einen trockenen Platz hatte, der war zufrieden.",
    "Über den Sommer zogen wir mit dem Archiv in das neue Gebäude. Es waren ungefähr vierhundert Kisten, und jede mußte geöffnet werden, \
     denn die Listen stimmten öfter nicht, als daß sie stimmten. Zwei Helferinnen schrieben auf, was sie fanden. Ende August wußten wir, \
     was wir hatten: etwas weniger, als man uns versprochen hatte, und etwas mehr, als hineinpaßte.",
];

/// Russian.
pub(super) const RUSSIAN: [&str; 2] = [
    "Первый поезд уходил в десять минут седьмого, и к этому времени на платформе уже не было места. Почти все знали друг друга в лицо, но \
     никто не здоровался. У двери стоял мальчик с футляром от виолончели и извинялся на каждой остановке. Никто не сердился: всю неделю \
     шёл дождь, и тот, кто стоял под крышей, был доволен.",
    "Летом мы перевезли архив в новое здание. Ящиков было около четырёхсот, и каждый пришлось открыть, потому что списки, которые к ним \
     прилагались, чаще ошибались, чем говорили правду. Две помощницы записывали всё, что находили. К концу августа мы знали, что у нас \
     есть: немного меньше, чем нам обещали, и немного больше, чем помещалось.",
];
