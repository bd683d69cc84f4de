"""What words are made of: the commonest words of each language, and syllables for all the others."""

from __future__ import annotations

COMMON = {
    "Deva": """
      के में की है और से को का हैं यह पर कि इस नहीं एक भी हो ने तो कर लिए था जो या वह ही थे
      अपने साथ बाद किया गया जा करने रहा तक कहा लेकिन कुछ सकते जब बहुत होता अब उस दिन समय लोग
      काम घर पानी जीवन बच्चे कहानी शब्द भाषा विचार पाठक कविता लेखक समाज देश प्रश्न उत्तर
      स्पष्ट सरल सुंदर विषय उदाहरण""",
    "Taml": """
      ஒரு மற்றும் இந்த என்று அது இது அவர் நான் என்ன இல்லை உள்ள அந்த பல மேலும் போது பின்னர்
      வந்து செய்து கொண்டு வேண்டும் அவன் அவள் நாம் நீங்கள் என மிகவும் தான் ஆனால் அல்லது முதல்
      வரை காலம் நாள் மக்கள் வீடு தண்ணீர் வாழ்க்கை குழந்தை கதை சொல் மொழி கருத்து வாசகர் கவிதை
      எழுத்தாளர் சமூகம் நாடு கேள்வி பதில் தெளிவு எளிய அழகு பொருள் உதாரணம்""",
    "Latn": """
      the of and to a in is that for it as was with be by on not he this are or his from at
      which but have an they you were their one all we can her has there been if more when
      will would who so no out up into time people work house water life story word language
      idea reader poem writer society country question answer clear simple subject example
      because""",
    "Hani": """
      的 是 在 了 不 和 有 我 他 这 中 人 上 们 为 来 说 到 就 也 要 与 时候 我们 一个 没有 他们 自己 可以
      这个 什么 因为 所以 但是 如果 已经 时间 工作 生活 故事 语言 想法 读者 作者 社会 国家 问题 回答 清楚 简单
      主题 例子 文章 句子 情感 描写""",
}
"""Together they are about half of a text."""

ONSETS = {
    "Deva": list("ककगचजटडततदनननपपबभमममययररररलललववशसससहह"),
    "Taml": list("ககககசசடடடததததநநனனபபபமமமயயரரரலலவவழளளறன"),
    "Latn": [*"bccddfghllmmnnnpprrrsssttttvw", "st", "tr", "ch", "th", "pr", "con", "re"],
    "Hani": [chr(0x4E00 + 5 * n) for n in range(3_500)],
}
RIMES = {
    "Deva": ["", "", "", *"ाािीुूेैोौ", "ं", "ार", "न"],
    "Taml": ["", "", *"ாிீுுூேைோ", "்", "ல்", "ன்"],
    "Latn": [*"aaeeeiiou", "an", "er", "er", "in", "al", "ion", "ing", "ent", "ate"],
    "Hani": [""],
}
SYLLABLES = {"Deva": (1, 4), "Taml": (2, 5), "Latn": (1, 3), "Hani": (1, 2)}
"""Least and most of a made-up word."""
STOPS = {"Deva": ("।", ", ", "?"), "Taml": (".", ", ", "?"), "Latn": (".", ", ", "?"), "Hani": ("。", "，", "！")}
