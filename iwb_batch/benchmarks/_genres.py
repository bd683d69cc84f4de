"""The 51 genres of WritingPreferenceBench and their macro domains.

Domains and English names: arXiv:2510.14616v2, Appendix B. Chinese tags: the released data. The pairing
of a Chinese tag with an English name goes by meaning and order; the paper does not print it.
"""

from __future__ import annotations

GENRES: dict[str, tuple[tuple[str, str], ...]] = {
    "Functional Documents": (
        ("学术论文摘要", "Abstract for Academic Paper"),
        ("实验报告", "Experiment Report"),
        ("会议纪要", "Meeting Minutes"),
        ("简历-求职信", "Resume / Cover Letter"),
        ("致谢信-致歉信", "Thank You / Apology Letter"),
        ("产品说明书", "Product Manual"),
        ("提案策划", "Proposal / Plan"),
        ("采访问题", "Interview Questions"),
        ("公开信", "Open Letter"),
        ("议论文", "Argumentative Essay"),
        ("悼词-纪念文", "Eulogy / Memorial Text"),
    ),
    "Promotional & Communication": (
        ("演讲稿", "Speech Transcript"),
        ("广告文案-营销邮件", "Advertisement Copy / Marketing Email"),
        ("宣传语-标语", "Slogan / Tagline"),
        ("社交媒体创作", "Social Media Content"),
        ("博客文章", "Blog Post"),
        ("产品评测", "Product Review"),
        ("科普文章", "Popular Science Article"),
        ("教程指南", "Tutorial / Guide"),
        ("辩论稿", "Debate Script"),
    ),
    "Non-Fiction": (
        ("散文", "Prose / Essay"),
        ("人物传记", "Biography"),
        ("旅行游记", "Travelogue"),
        ("书评-影评-乐评", "Book / Film / Music Review"),
    ),
    "Fiction": (
        ("奇幻-魔幻故事", "Fantasy / Magic"),
        ("科幻故事", "Science Fiction"),
        ("悬疑-推理故事", "Suspense / Mystery"),
        ("历史故事", "Historical Story"),
        ("童话-寓言", "Fairy Tale / Fable"),
        ("日常故事", "Slice of Life Story"),
        ("情感故事", "Emotional / Romance Story"),
        ("武侠小说", "Wuxia"),
        ("军事小说", "Military Fiction"),
        ("古装小说", "Historical Fiction (Costume)"),
        ("玄幻小说", "Xuanhuan"),
        ("仙侠小说", "Xianxia"),
        ("游戏小说", "Gaming Fiction"),
        ("体育小说", "Sports Fiction"),
        ("小说-故事", "General Fiction / Story"),
    ),
    "Funny": (
        ("二次元抽象文学-同人创作", "ACGN Funny Literature / Doujin (Fan Fiction)"),
        ("饭圈抽象文学", "Fandom Funny Literature"),
        ("电竞-游戏抽象文学", "Esports / Gaming Funny Literature"),
        ("嘻哈-说唱文化抽象文学", "Hip-hop / Rap Culture Funny Literature"),
        ("互联网黑话体系", "Internet Slang Systems"),
        ("反主流消费文化抽象", "Anti-Mainstream Consumer Culture"),
        ("跨国-跨语言抽象文学", "Cross-national / Cross-lingual Funny Literature"),
        ("亚文化身份认同表达", "Subculture Identity Expression"),
        ("抽象文学-亚文化", "Funny Literature / Subculture"),
    ),
    "Poetry": (("诗歌", "Poetry"),),
    "Scriptwriting": (("剧本-脚本", "Play / Script"),),
    "Role-Playing": (("角色扮演", "Role-Playing"),),
}
"""Macro domain -> (Chinese tag, English name)."""

_DOMAINS = {tag: domain for domain, pairs in GENRES.items() for pair in pairs for tag in pair}


def macro_domain(tag: str | None) -> str | None:
    """Macro domain of a tag in either language, exactly as spelt in the table; None for any other."""
    return _DOMAINS.get(tag) if tag is not None else None
